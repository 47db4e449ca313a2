-- expire_jobs: cancel up to `limit` jobs that have not started by their expires_at.
--
-- limit  int          at least 1
-- now    timestamptz  null for the server's clock; only tests pass a value
--
-- A running job is left alone: only the start has a deadline.
--
-- Returns `id` of each expired job.
-- Locks   jobs_active rows, SKIP LOCKED, until commit.
-- Index   jobs_active_expiry
WITH expired AS MATERIALIZED (
    SELECT jobs_active.id
    FROM jobs_active
    WHERE jobs_active.expires_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
        AND jobs_active.status <> 'running'
    ORDER BY jobs_active.expires_at
    LIMIT %(limit)s::integer
    FOR UPDATE SKIP LOCKED
),
finished AS (
    DELETE FROM jobs_active
    WHERE jobs_active.id = ANY (ARRAY(SELECT expired.id FROM expired))
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
)
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
    coalesce(%(now)s::timestamptz, clock_timestamp()),
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
    'Expired: not started by ' || finished.expires_at::text || '.',
    finished.payload,
    finished.meta
FROM finished
RETURNING id
