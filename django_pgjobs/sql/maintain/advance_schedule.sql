-- advance_schedule: move a schedule on to its next slot.
--
-- schedule_id  bigint
-- last_run_at  timestamptz  null to leave it
-- next_run_at  timestamptz  null when it will never run again
--
-- Returns nothing.
UPDATE cron_schedules
SET last_run_at = coalesce(%(last_run_at)s::timestamptz, cron_schedules.last_run_at),
    next_run_at = %(next_run_at)s::timestamptz
WHERE cron_schedules.id = %(schedule_id)s::bigint
