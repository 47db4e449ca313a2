-- disable_schedule: stop a schedule that can never be due.
--
-- schedule_id  bigint
--
-- Returns nothing.
UPDATE cron_schedules
SET enabled = false
WHERE cron_schedules.id = %(schedule_id)s::bigint
