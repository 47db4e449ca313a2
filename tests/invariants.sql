-- The invariants of the protocol. Each block returns the rows that violate it.
--
-- tests/invariants.py puts the part before the first block in front of each. Blocks that
-- need a ledger read the schema `ledger`: what producers and handlers wrote down outside
-- of the protocol. A time is compared with a time of the same server; after a step of
-- its clock leave out those marked so.
WITH jobs AS (
    SELECT id, tenant_id, status, attempt, max_attempts, claims, generation, payload
    FROM jobs_active
    UNION ALL
    SELECT id, tenant_id, status, attempt, max_attempts, claims, generation, payload
    FROM jobs_completed
),
-- Every attempt that has ended, whoever ended it. A success is its row of jobs_completed.
ended AS (
    SELECT job_id, tenant_id, claim, generation, attempt, fence_token, worker_id, outcome,
        started_at, finished_at
    FROM job_attempts
    UNION ALL
    SELECT id, tenant_id, claims, generation, attempt, fence_token, locked_by, 'completed',
        locked_at, completed_at
    FROM jobs_completed
    WHERE status = 'completed'
),
-- And those that go on.
attempts AS (
    SELECT job_id, tenant_id, claim, generation, fence_token, outcome, started_at, finished_at
    FROM ended
    UNION ALL
    SELECT id, tenant_id, claims, generation, fence_token, 'running', locked_at, 'infinity'
    FROM jobs_active
    WHERE status = 'running'
)
-- name: I01 a committed enqueue exists exactly once (ledger)
SELECT enqueued.job_id, count(jobs.id)
FROM ledger.enqueued
LEFT JOIN jobs ON jobs.id = enqueued.job_id
GROUP BY enqueued.job_id
HAVING count(jobs.id) <> 1
-- name: I02 a rolled-back enqueue does not exist and never ran (ledger)
SELECT rolled_back.token
FROM ledger.rolled_back
WHERE EXISTS (SELECT FROM jobs WHERE jobs.payload ->> 'token' = rolled_back.token)
-- name: I03 no job comes from nowhere (ledger)
SELECT jobs.id
FROM jobs
WHERE NOT EXISTS (SELECT FROM ledger.enqueued WHERE enqueued.job_id = jobs.id)
    AND NOT EXISTS (SELECT FROM cron_runs WHERE cron_runs.job_id = jobs.id)
-- name: I04 a job is active or finished, never both, never twice
SELECT jobs.id, count(*)
FROM jobs
GROUP BY jobs.id
HAVING count(*) > 1
-- name: I05 the attempts of a job never overlap (clock)
SELECT one.job_id, one.claim, other.claim
FROM attempts AS one
JOIN attempts AS other
    ON other.job_id = one.job_id
    AND other.claim > one.claim
WHERE other.started_at < one.finished_at
-- name: I06 every claim is recorded exactly once, as one ended attempt or the running one
SELECT jobs.id, jobs.claims, count(attempts.claim)
FROM jobs
LEFT JOIN attempts ON attempts.job_id = jobs.id
GROUP BY jobs.id, jobs.claims
HAVING count(attempts.claim) <> jobs.claims
    OR count(DISTINCT attempts.claim) <> jobs.claims
    OR coalesce(max(attempts.claim), 0) <> jobs.claims
-- name: I07 attempts that count are never more than max_attempts in one generation
SELECT jobs.id, ended.generation, count(*)
FROM ended
JOIN jobs ON jobs.id = ended.job_id
WHERE ended.outcome IN ('completed', 'failed', 'timeout', 'lost')
GROUP BY jobs.id, ended.generation, jobs.max_attempts
-- An attempt that was lost in company is given back: the next one has its number. At most twice.
HAVING count(DISTINCT ended.attempt) > jobs.max_attempts
    OR count(*) FILTER (WHERE ended.outcome <> 'lost') > jobs.max_attempts
UNION ALL
SELECT jobs.id, jobs.generation, jobs.attempt
FROM jobs
WHERE jobs.attempt > jobs.max_attempts
-- name: I08 a success is final: it was owned, and nothing was claimed after it
SELECT finished.id, finished.status
FROM jobs_completed AS finished
WHERE finished.status = 'completed'
    AND (
        num_nulls(finished.fence_token, finished.locked_by, finished.locked_at) > 0
        OR EXISTS (
            SELECT FROM job_attempts
            WHERE job_attempts.job_id = finished.id
                AND job_attempts.claim >= finished.claims
        )
    )
-- name: I09 a dead job's last attempt counted, and no attempt ends after its job (clock)
SELECT finished.id, finished.status
FROM jobs_completed AS finished
LEFT JOIN job_attempts AS last
    ON last.job_id = finished.id
    AND last.claim = finished.claims
WHERE (
    finished.status = 'dead'
    AND coalesce(last.outcome NOT IN ('failed', 'timeout', 'lost'), true)
) OR last.finished_at > finished.completed_at
-- name: I10 a fence token is issued once
SELECT attempts.fence_token, count(*)
FROM attempts
GROUP BY attempts.fence_token
HAVING count(*) > 1
-- name: I11 the claims of a job follow one another in time (clock)
SELECT one.job_id, one.claim
FROM attempts AS one
JOIN attempts AS next
    ON next.job_id = one.job_id
    AND next.claim = one.claim + 1
WHERE next.started_at < one.started_at
-- name: I12 nobody runs a job without a claim (ledger)
SELECT DISTINCT executed.job_id, executed.fence_token
FROM ledger.executed
WHERE NOT EXISTS (
    SELECT FROM attempts
    WHERE attempts.job_id = executed.job_id
        AND attempts.fence_token = executed.fence_token
)
-- name: I13 a success was run to its end under its own claim (ledger)
SELECT ended.job_id, ended.claim
FROM ended
WHERE ended.outcome = 'completed'
    AND NOT EXISTS (
        SELECT FROM ledger.executed
        WHERE executed.job_id = ended.job_id
            AND executed.fence_token = ended.fence_token
            AND executed.event = 'end'
    )
-- name: I14 a tenant's cap is never exceeded (clock)
SELECT tenant_config.tenant_id, max(level.running), tenant_config.max_concurrent_jobs
FROM (
    SELECT change.tenant_id,
        sum(change.step) OVER (PARTITION BY change.tenant_id ORDER BY change.at, change.step) AS running
    FROM (
        SELECT tenant_id, started_at AS at, 1 AS step FROM attempts WHERE started_at < finished_at
        UNION ALL
        SELECT tenant_id, finished_at, -1 FROM attempts WHERE started_at < finished_at
    ) AS change
) AS level
JOIN tenant_config ON tenant_config.tenant_id = level.tenant_id
GROUP BY tenant_config.tenant_id, tenant_config.max_concurrent_jobs
HAVING max(level.running) > tenant_config.max_concurrent_jobs
-- name: I15 a slot that fired has exactly one job
SELECT cron_runs.schedule_id, cron_runs.slot_at, count(jobs.id)
FROM cron_runs
LEFT JOIN jobs ON jobs.id = cron_runs.job_id
WHERE cron_runs.kind <> 'skipped'
GROUP BY cron_runs.schedule_id, cron_runs.slot_at
HAVING count(jobs.id) <> 1
-- name: I16 an attempt has the tenant of its job, and a generation that it has had
SELECT ended.job_id, ended.claim
FROM ended
JOIN jobs ON jobs.id = ended.job_id
WHERE ended.tenant_id <> jobs.tenant_id
    OR ended.generation > jobs.generation
-- name: I17 a finished attempt is not running
SELECT jobs_active.id
FROM jobs_active
JOIN ended
    ON ended.job_id = jobs_active.id
    AND ended.fence_token = jobs_active.fence_token
-- name: I18 a requested cancellation is never forgotten (ledger)
SELECT jobs.id, jobs.status
FROM ledger.cancelled
JOIN jobs ON jobs.id = cancelled.job_id
LEFT JOIN jobs_active ON jobs_active.id = jobs.id
WHERE jobs.generation = cancelled.generation
    AND jobs.status <> 'cancelled'
    AND jobs_active.cancel_requested IS NOT TRUE
-- name: L01 nothing that could run is left, and no lease is overdue (quiet)
SELECT jobs_active.id, jobs_active.status
FROM jobs_active
WHERE jobs_active.status = 'pending'
    OR jobs_active.lease_expires < now() - interval '30 seconds'
    OR (
        jobs_active.status IN ('scheduled', 'failed', 'retryable')
        AND jobs_active.scheduled_at < now() - interval '30 seconds'
    )
-- name: L02 what claims look for is in a live epoch, or behind the floor of a kept one (quiet)
SELECT jobs_active.id, jobs_active.epoch
FROM jobs_active
WHERE (
        jobs_active.status = 'running'
        AND jobs_active.epoch NOT BETWEEN (SELECT last_value FROM jobs_running_epoch_low)
            AND (SELECT last_value FROM jobs_running_epoch)
    )
    OR (
        jobs_active.status = 'pending'
        AND jobs_active.epoch NOT BETWEEN (SELECT last_value FROM jobs_epoch_low)
            AND (SELECT last_value FROM jobs_epoch)
        AND NOT EXISTS (
            SELECT FROM kept_epochs
            JOIN claim_floors ON claim_floors.epoch = kept_epochs.epoch
            WHERE claim_floors.generation = (SELECT last_value FROM jobs_floors)
                AND claim_floors.epoch = jobs_active.epoch
                AND claim_floors.queue_name = jobs_active.queue_name
                AND claim_floors.tenant_id = jobs_active.tenant_id
                AND (claim_floors.claim_order, claim_floors.job_id) <= (jobs_active.claim_order, jobs_active.id)
        )
    )
