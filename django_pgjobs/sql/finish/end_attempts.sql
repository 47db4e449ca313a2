-- end_attempts: record attempts that did not succeed, and send their jobs on.
--
-- ids             bigint[]
-- fence_tokens    bigint[]    of the same length, as all that follow
-- outcomes        text[]      failed, timeout, lost, snoozed, released or cancelled
-- is_retryable    boolean[]   false: a failed job is dead at once
-- delays          interval[]  null: the backoff
-- backoff_bases   interval[]  ceiling of the delay after the first failure
-- backoff_caps    interval[]  highest ceiling
-- spreads         interval[]  longest further delay after a failure, drawn at random
-- error_classes   text[]
-- error_messages  text[]
-- tracebacks      text[]
-- fingerprints    text[]
-- worker_id       text
-- now             timestamptz null for the server's clock; only tests pass a value
--
--     cancel was requested, or outcome is cancelled      -> cancelled  (history)
--     snoozed, released                                  -> retryable, the attempt given back
--     failed, timeout, lost: not retryable, or the last  -> dead       (history)
--     failed, timeout, lost                              -> failed, backing off
--
-- The backoff is exponential with full jitter: uniform between zero and
-- least(cap, base * 2^(attempt - 1)), the exponent bounded before the arithmetic, which is
-- done in seconds: a long interval times 2^29 is out of its range.
-- See https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
--
-- Losses of processes add up; see reap_leases. An attempt that ends in order proves that the job
-- does not kill its process, and ends its part as a probe of a breaker.
--
-- Only the owner of a running attempt writes anything. Each attempt gets its row of
-- job_attempts in this statement.
--
-- Returns `id` and `status` (the job's new one) of each attempt that was recorded. For
-- the others ask resolve_attempts.
-- Locks   the jobs' rows, waiting, in ascending id where the plan keeps the order.
-- Index   jobs_active_pkey
WITH given AS MATERIALIZED (
    SELECT unordered.id,
        unordered.fence_token,
        unordered.outcome,
        unordered.is_retryable,
        unordered.delay,
        unordered.backoff_base,
        unordered.backoff_cap,
        unordered.spread,
        unordered.error_class,
        unordered.error_message,
        unordered.traceback,
        unordered.fingerprint
    FROM unnest(
        %(ids)s::bigint[],
        %(fence_tokens)s::bigint[],
        %(outcomes)s::text[],
        %(is_retryable)s::boolean[],
        %(delays)s::interval[],
        %(backoff_bases)s::interval[],
        %(backoff_caps)s::interval[],
        %(spreads)s::interval[],
        %(error_classes)s::text[],
        %(error_messages)s::text[],
        %(tracebacks)s::text[],
        %(fingerprints)s::text[]
    ) AS unordered (
        id,
        fence_token,
        outcome,
        is_retryable,
        delay,
        backoff_base,
        backoff_cap,
        spread,
        error_class,
        error_message,
        traceback,
        fingerprint
    )
    ORDER BY unordered.id
),
owned AS MATERIALIZED (
    SELECT job.id,
        job.tenant_id,
        job.fence_token,
        job.locked_by,
        job.locked_at,
        job.attempt,
        job.claims,
        job.generation,
        job.job_name,
        job.queue_name,
        given.outcome,
        given.delay,
        given.backoff_base,
        given.backoff_cap,
        given.spread,
        given.error_class,
        given.error_message,
        given.traceback,
        given.fingerprint,
        coalesce(%(now)s::timestamptz, clock_timestamp()) AS finished_at,
        CASE
            WHEN job.cancel_requested OR given.outcome = 'cancelled' THEN 'cancelled'
            WHEN given.outcome IN ('snoozed', 'released') THEN 'retryable'
            WHEN NOT given.is_retryable OR job.attempt >= job.max_attempts THEN 'dead'
            ELSE 'failed'
        END::job_status AS status
    FROM given
    CROSS JOIN LATERAL (
        SELECT jobs_active.id,
            jobs_active.tenant_id,
            jobs_active.fence_token,
            jobs_active.locked_by,
            jobs_active.locked_at,
            jobs_active.attempt,
            jobs_active.max_attempts,
            jobs_active.claims,
            jobs_active.generation,
            jobs_active.cancel_requested,
            jobs_active.job_name,
            jobs_active.queue_name
        FROM jobs_active
        WHERE jobs_active.id = given.id
            AND jobs_active.fence_token = given.fence_token
            AND jobs_active.locked_by = %(worker_id)s::text
            AND jobs_active.status = 'running'
        FOR UPDATE
    ) AS job
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
        outcome,
        error_class,
        error_message,
        traceback,
        fingerprint
    )
    SELECT owned.id,
        owned.tenant_id,
        owned.fence_token,
        owned.locked_at,
        owned.finished_at,
        owned.claims,
        owned.generation,
        owned.attempt,
        owned.job_name,
        owned.queue_name,
        owned.locked_by,
        CASE owned.status WHEN 'cancelled' THEN 'cancelled' ELSE owned.outcome END,
        owned.error_class,
        owned.error_message,
        owned.traceback,
        owned.fingerprint
    FROM owned
),
waiting AS (
    UPDATE jobs_active
    SET status = owned.status,
        attempt = jobs_active.attempt - (owned.status = 'retryable')::integer,
        scheduled_at = owned.finished_at + coalesce(
            owned.delay,
            random() * make_interval(
                secs => least(
                    extract(epoch FROM owned.backoff_cap),
                    extract(epoch FROM owned.backoff_base) * power(2, least(jobs_active.attempt, 30) - 1)
                )
            )
        ) + random() * owned.spread,
        losses = CASE owned.outcome WHEN 'lost' THEN jobs_active.losses + 1 ELSE 0 END,
        is_probe = false,
        locked_by = NULL,
        locked_at = NULL,
        lease_expires = NULL,
        fence_token = NULL,
        progress = NULL
    FROM owned
    WHERE jobs_active.id = owned.id
        AND jobs_active.fence_token = owned.fence_token
        AND jobs_active.locked_by = %(worker_id)s::text
        AND jobs_active.status = 'running'
        AND owned.status IN ('failed', 'retryable')
    RETURNING jobs_active.id,
        jobs_active.status
),
finished AS (
    DELETE FROM jobs_active
    USING owned
    WHERE jobs_active.id = owned.id
        AND jobs_active.fence_token = owned.fence_token
        AND jobs_active.locked_by = %(worker_id)s::text
        AND jobs_active.status = 'running'
        AND owned.status IN ('dead', 'cancelled')
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
        jobs_active.meta,
        owned.status,
        owned.finished_at,
        owned.error_class,
        owned.error_message,
        owned.fingerprint
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
        fingerprint,
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
        finished.finished_at,
        finished.status,
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
        finished.error_class,
        finished.error_message,
        finished.fingerprint,
        finished.payload,
        finished.meta
    FROM finished
    RETURNING id,
        status
)
SELECT waiting.id,
    waiting.status
FROM waiting
UNION ALL
SELECT buried.id,
    buried.status
FROM buried
