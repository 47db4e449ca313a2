-- reap_leases: end up to `limit` attempts whose lease has expired, and send their jobs on.
--
-- limit         int          at least 1
-- backoff_base  interval     see end_attempts
-- backoff_cap   interval     see end_attempts
-- now           timestamptz  null for the server's clock; only tests pass a value
--
--     cancel was requested    -> cancelled  (history)
--     a suspect               -> dead       (history)
--     the last attempt        -> dead       (history)
--     otherwise               -> failed, to run again at once after the first loss and
--                                with backoff after further ones
--
-- A job that was in flight in two lost processes is a suspect: it runs alone from then on, and a
-- third loss shows that it kills its process. Where several jobs were in flight, only one of them
-- may have killed it, so that the attempt is given back to each. It is not where max_attempts is 1:
-- such a job does not run twice.
--
-- Everything it needs is on the row: it works in a process that lacks the handlers. A lease
-- renewed meanwhile is seen under the row's lock and left alone. Each attempt gets its
-- row of job_attempts, outcome lost, in this statement: also one whose job is cancelled,
-- because resolve_attempts takes any other outcome for the worker's own. Losses of jobs of one
-- name share a fingerprint.
--
-- Returns a row for each reaped attempt: `id`, `job_name`, `queue_name`, `worker_id`,
-- `attempt` and `status` (the job's new one).
-- Locks   jobs_active rows, SKIP LOCKED, until commit.
-- Index   jobs_active_running, job_attempts_lost
WITH found AS MATERIALIZED (
    SELECT jobs_active.id,
        jobs_active.tenant_id,
        jobs_active.fence_token,
        jobs_active.locked_by,
        jobs_active.locked_at,
        jobs_active.attempt,
        jobs_active.max_attempts,
        jobs_active.claims,
        jobs_active.generation,
        jobs_active.losses,
        jobs_active.cancel_requested,
        jobs_active.job_name,
        jobs_active.queue_name
    FROM jobs_active
    WHERE jobs_active.status = 'running'
        AND jobs_active.epoch >= (SELECT jobs_running_epoch_low.last_value FROM jobs_running_epoch_low)
        AND jobs_active.locked_at IS NOT NULL
        AND jobs_active.lease_expires < coalesce(%(now)s::timestamptz, statement_timestamp())
    LIMIT %(limit)s::integer
    FOR UPDATE SKIP LOCKED
),
company AS MATERIALIZED (
    SELECT jobs_active.locked_by
    FROM jobs_active
    WHERE EXISTS (SELECT FROM found)
        AND jobs_active.status = 'running'
        AND jobs_active.epoch >= (SELECT jobs_running_epoch_low.last_value FROM jobs_running_epoch_low)
        AND jobs_active.locked_at IS NOT NULL
        AND jobs_active.locked_by = ANY (ARRAY(SELECT found.locked_by FROM found))
),
owners AS MATERIALIZED (
    SELECT company.locked_by,
        count(*) > 1 OR EXISTS (
            SELECT FROM job_attempts
            WHERE job_attempts.worker_id = company.locked_by
                AND job_attempts.outcome = 'lost'
        ) AS had_several
    FROM company
    GROUP BY company.locked_by
),
expired AS MATERIALIZED (
    SELECT found.id,
        found.tenant_id,
        found.fence_token,
        found.locked_by,
        found.locked_at,
        found.attempt,
        found.claims,
        found.generation,
        found.job_name,
        found.queue_name,
        coalesce(%(now)s::timestamptz, clock_timestamp()) AS finished_at,
        found.losses >= 2 AS was_suspect,
        owners.had_several AND found.max_attempts > 1 AS is_given_back,
        CASE
            WHEN found.cancel_requested THEN 'cancelled'
            WHEN found.losses >= 2 THEN 'dead'
            WHEN owners.had_several AND found.max_attempts > 1 THEN 'failed'
            WHEN found.attempt >= found.max_attempts THEN 'dead'
            ELSE 'failed'
        END::job_status AS status,
        substr(encode(sha256(convert_to('lost ' || found.job_name, 'UTF8')), 'hex'), 1, 16) AS fingerprint
    FROM found
    JOIN owners ON owners.locked_by = found.locked_by
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
        fingerprint
    )
    SELECT expired.id,
        expired.tenant_id,
        expired.fence_token,
        expired.locked_at,
        expired.finished_at,
        expired.claims,
        expired.generation,
        expired.attempt,
        expired.job_name,
        expired.queue_name,
        expired.locked_by,
        'lost',
        'django_pgjobs.exceptions.LeaseLost',
        'The lease expired: worker ' || expired.locked_by || ' did not renew it.',
        expired.fingerprint
    FROM expired
),
waiting AS (
    UPDATE jobs_active
    SET status = 'failed',
        attempt = jobs_active.attempt - expired.is_given_back::integer,
        losses = jobs_active.losses + 1,
        is_probe = false,
        scheduled_at = expired.finished_at + random() * make_interval(
            secs => least(
                extract(epoch FROM %(backoff_cap)s::interval),
                extract(epoch FROM %(backoff_base)s::interval) * (power(2, least(jobs_active.attempt, 30) - 1) - 1)
            )
        ),
        locked_by = NULL,
        locked_at = NULL,
        lease_expires = NULL,
        fence_token = NULL,
        progress = NULL
    FROM expired
    WHERE jobs_active.id = expired.id
        AND jobs_active.fence_token = expired.fence_token
        AND jobs_active.locked_by = expired.locked_by
        AND jobs_active.status = 'running'
        AND expired.status = 'failed'
    RETURNING jobs_active.id
),
finished AS (
    DELETE FROM jobs_active
    USING expired
    WHERE jobs_active.id = expired.id
        AND jobs_active.fence_token = expired.fence_token
        AND jobs_active.locked_by = expired.locked_by
        AND jobs_active.status = 'running'
        AND expired.status IN ('dead', 'cancelled')
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
        expired.status,
        expired.finished_at,
        expired.was_suspect,
        expired.fingerprint
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
        CASE WHEN finished.was_suspect AND finished.status = 'dead'
            THEN 'django_pgjobs.exceptions.PoisonPill'
            ELSE 'django_pgjobs.exceptions.LeaseLost'
        END,
        CASE WHEN finished.was_suspect AND finished.status = 'dead'
            THEN 'A poison pill: it was in flight in three lost processes, the last time alone. The last was '
                || finished.locked_by || '.'
            ELSE 'The lease of the last attempt expired: worker ' || finished.locked_by || ' did not renew it.'
        END,
        finished.fingerprint,
        finished.payload,
        finished.meta
    FROM finished
    RETURNING id
)
SELECT expired.id,
    expired.job_name,
    expired.queue_name,
    expired.locked_by AS worker_id,
    expired.attempt,
    expired.status
FROM expired
WHERE expired.id IN (
    SELECT waiting.id FROM waiting
    UNION ALL
    SELECT buried.id FROM buried
)
