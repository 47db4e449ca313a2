-- cancel_jobs: end jobs that do not run, and ask the workers of running ones to stop.
--
-- ids     bigint[]
-- reason  text
--
-- A job that does not run moves to history as cancelled. A running one is marked; it ends as
-- cancelled however its attempt ends, and is never retried. A row that somebody else has
-- locked is skipped, because whoever may wait for a row lock holds no other: call
-- again for the ids that are missing from the answer.
--
-- Returns `id` and `status` of each job found: cancelled, or running (asked to stop).
-- Locks   jobs_active rows, SKIP LOCKED, until commit.
-- Index   jobs_active_pkey
WITH found AS MATERIALIZED (
    SELECT job.id,
        job.status
    FROM unnest(%(ids)s::bigint[]) AS wanted (id)
    CROSS JOIN LATERAL (
        SELECT jobs_active.id,
            jobs_active.status
        FROM jobs_active
        WHERE jobs_active.id = wanted.id
        FOR UPDATE SKIP LOCKED
    ) AS job
),
requested AS (
    UPDATE jobs_active
    SET cancel_requested = true
    FROM found
    WHERE jobs_active.id = found.id
        AND jobs_active.status = 'running'
    RETURNING jobs_active.id,
        jobs_active.status
),
finished AS (
    DELETE FROM jobs_active
    USING found
    WHERE jobs_active.id = found.id
        AND jobs_active.status <> 'running'
    RETURNING jobs_active.id,
        jobs_active.tenant_id,
        jobs_active.fence_token,
        jobs_active.created_at,
        jobs_active.scheduled_at,
        jobs_active.expires_at,
        jobs_active.started_at,
        jobs_active.locked_at,
        jobs_active.attempt,
        jobs_active.max_attempts,
        jobs_active.claims,
        jobs_active.generation,
        jobs_active.priority,
        jobs_active.payload_version,
        jobs_active.job_name,
        jobs_active.queue_name,
        jobs_active.locked_by,
        jobs_active.idempotency_key,
        jobs_active.group_key,
        jobs_active.payload,
        jobs_active.meta
),
buried AS (
    INSERT INTO jobs_completed (
        id,
        tenant_id,
        fence_token,
        created_at,
        scheduled_at,
        expires_at,
        started_at,
        locked_at,
        completed_at,
        status,
        attempt,
        max_attempts,
        claims,
        generation,
        priority,
        payload_version,
        job_name,
        queue_name,
        locked_by,
        idempotency_key,
        group_key,
        error_class,
        error_message,
        payload,
        meta
    )
    SELECT finished.id,
        finished.tenant_id,
        finished.fence_token,
        finished.created_at,
        finished.scheduled_at,
        finished.expires_at,
        finished.started_at,
        finished.locked_at,
        clock_timestamp(),
        'cancelled',
        finished.attempt,
        finished.max_attempts,
        finished.claims,
        finished.generation,
        finished.priority,
        finished.payload_version,
        finished.job_name,
        finished.queue_name,
        finished.locked_by,
        finished.idempotency_key,
        finished.group_key,
        NULL,
        %(reason)s::text,
        finished.payload,
        finished.meta
    FROM finished
    RETURNING id,
        status
)
SELECT requested.id,
    requested.status
FROM requested
UNION ALL
SELECT buried.id,
    buried.status
FROM buried
