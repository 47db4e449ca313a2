-- renew_leases: extend the leases of attempts, and hear what became of them.
--
-- ids           bigint[]
-- fence_tokens  bigint[]  of the same length, as all that follow
-- extends       boolean[] false: hear only; the handler does not get on, and its lease expires
-- progress      jsonb[]   what the handler said last about its progress, or null
-- worker_id     text
-- lease         interval  from now
-- now           timestamptz  null for the server's clock; only tests pass a value
--
-- One job may be given twice: its worker has lost it, claimed it again, and runs both attempts.
-- Touches no indexed column. A row that is locked, because it is just being finished or
-- cancelled, is skipped and not waited for: the heartbeat waits for nobody.
--
-- Returns a row for each given attempt: `id`, `fence_token`, `is_owned` (false: the lease is lost)
-- and `cancel_requested`.
-- Locks   jobs_active rows, SKIP LOCKED, until commit.
-- Index   jobs_active_pkey
WITH given AS MATERIALIZED (
    SELECT pairs.id,
        pairs.fence_token,
        pairs.extends,
        pairs.progress
    FROM unnest(
        %(ids)s::bigint[],
        %(fence_tokens)s::bigint[],
        %(extends)s::boolean[],
        %(progress)s::jsonb[]
    ) AS pairs (id, fence_token, extends, progress)
),
held AS MATERIALIZED (
    SELECT job.id,
        job.fence_token,
        given.progress
    FROM given
    CROSS JOIN LATERAL (
        SELECT jobs_active.id,
            jobs_active.fence_token
        FROM jobs_active
        WHERE jobs_active.id = given.id
            AND jobs_active.fence_token = given.fence_token
            AND jobs_active.locked_by = %(worker_id)s::text
            AND jobs_active.status = 'running'
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS job
    WHERE given.extends
),
renewed AS (
    UPDATE jobs_active
    SET lease_expires = greatest(
            jobs_active.lease_expires,
            coalesce(%(now)s::timestamptz, clock_timestamp()) + %(lease)s::interval
        ),
        progress = coalesce(held.progress, jobs_active.progress)
    FROM held
    WHERE jobs_active.id = held.id
        AND jobs_active.fence_token = held.fence_token
        AND jobs_active.locked_by = %(worker_id)s::text
        AND jobs_active.status = 'running'
    RETURNING jobs_active.id,
        jobs_active.fence_token,
        jobs_active.cancel_requested
)
SELECT given.id,
    given.fence_token,
    renewed.id IS NOT NULL OR seen.id IS NOT NULL AS is_owned,
    coalesce(renewed.cancel_requested, seen.cancel_requested, false) AS cancel_requested
FROM given
LEFT JOIN renewed ON renewed.id = given.id AND renewed.fence_token = given.fence_token
LEFT JOIN LATERAL (
    SELECT jobs_active.id,
        jobs_active.cancel_requested
    FROM jobs_active
    WHERE jobs_active.id = given.id
        AND jobs_active.fence_token = given.fence_token
        AND jobs_active.locked_by = %(worker_id)s::text
        AND jobs_active.status = 'running'
) AS seen ON renewed.id IS NULL
