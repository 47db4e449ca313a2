-- redrive_jobs: make dead and cancelled jobs pending again, with all their attempts.
--
-- ids  bigint[]
--
-- Moves the row back under its own id, so that nothing can be redriven twice; its generation
-- grows by one, and claims goes on counting, so that the attempts before it stay its
-- history. Priority, queue, payload and created_at are kept; an old expires_at is not, or
-- the job would expire at once. A poison pill stays a suspect and runs alone. A job whose idempotency key an unfinished job holds
-- stays where it is.
--
-- Returns `id`, `queue_name` and `is_redriven` of each dead or cancelled job found; false: its key
-- is taken.
-- Locks   jobs_completed rows, waiting for another redrive of the same job.
-- Index   jobs_completed_pkey, in every partition
WITH found AS MATERIALIZED (
    SELECT job.id,
        job.completed_at,
        job.tenant_id,
        job.created_at,
        job.started_at,
        job.max_attempts,
        job.claims,
        job.generation,
        job.error_class,
        job.priority,
        job.payload_version,
        job.job_name,
        job.queue_name,
        job.idempotency_key,
        job.group_key,
        job.payload,
        job.meta
    FROM (
        SELECT DISTINCT unordered.id
        FROM unnest(%(ids)s::bigint[]) AS unordered (id)
        ORDER BY unordered.id
    ) AS wanted
    CROSS JOIN LATERAL (
        SELECT jobs_completed.id,
            jobs_completed.completed_at,
            jobs_completed.tenant_id,
            jobs_completed.created_at,
            jobs_completed.started_at,
            jobs_completed.max_attempts,
            jobs_completed.claims,
            jobs_completed.generation,
            jobs_completed.error_class,
            jobs_completed.priority,
            jobs_completed.payload_version,
            jobs_completed.job_name,
            jobs_completed.queue_name,
            jobs_completed.idempotency_key,
            jobs_completed.group_key,
            jobs_completed.payload,
            jobs_completed.meta
        FROM jobs_completed
        WHERE jobs_completed.id = wanted.id
            AND jobs_completed.status IN ('dead', 'cancelled')
        FOR UPDATE
    ) AS job
),
returned AS (
    INSERT INTO jobs_active (
        id,
        epoch,
        tenant_id,
        created_at,
        scheduled_at,
        started_at,
        status,
        attempt,
        max_attempts,
        claims,
        generation,
        losses,
        priority,
        priority_worth,
        payload_version,
        job_name,
        queue_name,
        idempotency_key,
        group_key,
        payload,
        meta
    )
    SELECT found.id,
        (SELECT jobs_epoch.last_value FROM jobs_epoch),
        found.tenant_id,
        found.created_at,
        statement_timestamp(),
        found.started_at,
        'pending',
        0,
        found.max_attempts,
        found.claims,
        found.generation + 1,
        CASE WHEN found.error_class = 'django_pgjobs.exceptions.PoisonPill' THEN 2 ELSE 0 END,
        found.priority,
        coalesce(
            (
                SELECT extract(epoch FROM queue_config.priority_aging) * 1000
                FROM queue_config
                WHERE queue_config.queue_name = found.queue_name
            ),
            70368744177664
        )::bigint,
        found.payload_version,
        found.job_name,
        found.queue_name,
        found.idempotency_key,
        found.group_key,
        found.payload,
        found.meta
    FROM found
    ON CONFLICT DO NOTHING
    RETURNING id
),
moved AS (
    DELETE FROM jobs_completed
    USING found
    WHERE jobs_completed.id = ANY (ARRAY(SELECT returned.id FROM returned))
        AND jobs_completed.id = found.id
        AND jobs_completed.completed_at = found.completed_at
)
SELECT found.id,
    found.queue_name,
    returned.id IS NOT NULL AS is_redriven
FROM found
LEFT JOIN returned ON returned.id = found.id
