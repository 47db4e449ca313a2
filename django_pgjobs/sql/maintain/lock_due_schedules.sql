-- lock_due_schedules: the enabled schedules whose time has come.
--
-- limit  int          at least 1
-- now    timestamptz  null for the server's clock; only tests pass a value
--
-- First half of firing: the rows stay locked until the slots have been fired and
-- next_run_at has moved on, in one transaction.
--
-- Returns the schedules' columns, and the server's `now`.
-- Locks   cron_schedules rows, SKIP LOCKED, until commit.
SELECT cron_schedules.id,
    cron_schedules.name,
    cron_schedules.job_name,
    cron_schedules.cron_expression,
    cron_schedules.timezone,
    cron_schedules.tenant_id,
    cron_schedules.queue_name,
    cron_schedules.payload::text AS payload,
    cron_schedules.next_run_at,
    coalesce(%(now)s::timestamptz, clock_timestamp()) AS now
FROM cron_schedules
WHERE cron_schedules.enabled
    AND (
        cron_schedules.next_run_at IS NULL
        OR cron_schedules.next_run_at <= coalesce(%(now)s::timestamptz, clock_timestamp())
    )
ORDER BY cron_schedules.next_run_at
LIMIT %(limit)s::integer
FOR NO KEY UPDATE SKIP LOCKED
