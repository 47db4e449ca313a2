-- lock_due_schedules: the schedules that have something to fire.
--
-- limit  int          at least 1
-- now    timestamptz  null for the server's clock; only tests pass a value
--
-- First part of firing: the rows stay locked until the slots have been fired and the schedules
-- have moved on, in one transaction. Found are those whose time has come, and those with a slot
-- that waits for a job which is unfinished no longer. The sub-select is no NOT EXISTS, which may
-- be planned as a hash of the whole table of jobs.
--
-- Returns the columns that decide what is due, and the server's `now`.
-- Locks   cron_schedules rows, SKIP LOCKED, until commit.
-- Index   cron_schedules_due, cron_schedules_queued
SELECT cron_schedules.id,
    cron_schedules.name,
    cron_schedules.job_name,
    cron_schedules.cron_expression,
    cron_schedules.timezone,
    cron_schedules.catch_up,
    cron_schedules.catch_up_limit,
    cron_schedules.overlap,
    cron_schedules.jitter,
    greatest(cron_schedules.active_since, cron_schedules.last_slot_at) AS handled_until,
    cron_schedules.queued_slot_at,
    cron_schedules.last_job_id,
    coalesce(%(now)s::timestamptz, clock_timestamp()) AS now
FROM cron_schedules
WHERE cron_schedules.enabled
    AND cron_schedules.removed_at IS NULL
    AND (
        cron_schedules.next_run_at IS NULL
        OR cron_schedules.next_run_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
        OR (
            cron_schedules.queued_slot_at IS NOT NULL
            AND (
                SELECT jobs_active.id
                FROM jobs_active
                WHERE jobs_active.id = cron_schedules.last_job_id
            ) IS NULL
        )
    )
ORDER BY cron_schedules.next_run_at
LIMIT %(limit)s::integer
FOR NO KEY UPDATE OF cron_schedules SKIP LOCKED
