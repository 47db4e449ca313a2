-- complete_jobs: record the success of attempts, and move their jobs to history.
--
-- ids           bigint[]
-- fence_tokens  bigint[]  of the same length
-- results       jsonb[]   what the handlers returned; null, or missing at the end, for nothing
-- worker_id     text
-- now           timestamptz  null for the server's clock; only tests pass a value
--
-- Only the owner of a running attempt moves anything. A job whose cancellation was
-- requested meanwhile ends as cancelled, with its row of job_attempts.
--
-- Returns `id` and `status` (completed or cancelled) of each job that was moved. For the others
-- ask resolve_attempts.
-- Locks   the jobs' rows, waiting, in ascending id where the plan keeps the order.
-- Index   jobs_active_pkey
WITH finished AS (
    DELETE FROM jobs_active
    USING (
        SELECT unordered.id,
            unordered.fence_token,
            unordered.result
        FROM unnest(
            %(ids)s::bigint[],
            %(fence_tokens)s::bigint[],
            %(results)s::jsonb[]
        ) AS unordered (id, fence_token, result)
        ORDER BY unordered.id
    ) AS given
    WHERE jobs_active.id = given.id
        AND jobs_active.fence_token = given.fence_token
        AND jobs_active.locked_by = %(worker_id)s::text
        AND jobs_active.status = 'running'
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
        jobs_active.cancel_requested,
        jobs_active.job_name,
        jobs_active.queue_name,
        jobs_active.locked_by,
        jobs_active.idempotency_key,
        jobs_active.group_key,
        jobs_active.payload,
        jobs_active.meta,
        given.result,
        coalesce(%(now)s::timestamptz, clock_timestamp()) AS finished_at
),
recorded AS (
    INSERT INTO job_attempts (
        job_id,
        tenant_id,
        fence_token,
        started_at,
        finished_at,
        claim,
        generation,
        attempt,
        job_name,
        queue_name,
        worker_id,
        outcome
    )
    SELECT finished.id,
        finished.tenant_id,
        finished.fence_token,
        finished.locked_at,
        finished.finished_at,
        finished.claims,
        finished.generation,
        finished.attempt,
        finished.job_name,
        finished.queue_name,
        finished.locked_by,
        'cancelled'
    FROM finished
    WHERE finished.cancel_requested
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
    payload,
    result,
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
    finished.finished_at,
    CASE WHEN finished.cancel_requested THEN 'cancelled' ELSE 'completed' END::job_status,
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
    finished.payload,
    CASE WHEN NOT finished.cancel_requested THEN finished.result END,
    finished.meta
FROM finished
RETURNING id,
    status
