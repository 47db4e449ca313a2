-- check_leases: which of a worker's attempts are not wanted any more.
--
-- ids           bigint[]
-- fence_tokens  bigint[]  of the same length
-- worker_id     text
--
-- Cheaper than renew_leases: it writes nothing and locks nothing, so that a worker can ask often.
--
-- Returns a row for each attempt whose lease is lost or whose job is to be cancelled: `id`,
-- `fence_token`, `is_owned` and `cancel_requested`.
-- LIMIT keeps it a lookup for each attempt.
-- Index   jobs_active_pkey
SELECT given.id,
    given.fence_token,
    job.id IS NOT NULL AS is_owned,
    coalesce(job.cancel_requested, false) AS cancel_requested
FROM unnest(
    %(ids)s::bigint[],
    %(fence_tokens)s::bigint[]
) AS given (id, fence_token)
LEFT JOIN LATERAL (
    SELECT jobs_active.id,
        jobs_active.cancel_requested
    FROM jobs_active
    WHERE jobs_active.id = given.id
        AND jobs_active.fence_token = given.fence_token
        AND jobs_active.locked_by = %(worker_id)s::text
        AND jobs_active.status = 'running'
    LIMIT 1
) AS job ON true
WHERE job.id IS NULL
    OR job.cancel_requested
