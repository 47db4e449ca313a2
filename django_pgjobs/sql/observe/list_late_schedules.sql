-- list_late_schedules: the schedules that have not fired in time, or cannot be fired.
--
-- patience  interval     since the slot
-- limit     int          at least 1
-- now       timestamptz  null for the server's clock; only tests pass a value
--
-- Returns `id`, `name`, `tenant_id`, `due_at` (when it should have been looked at), `late_by` and
-- `problem` of each, the latest first.
SELECT cron_schedules.id,
    cron_schedules.name,
    cron_schedules.tenant_id,
    coalesce(cron_schedules.next_run_at, cron_schedules.active_since) AS due_at,
    greatest(
        interval '0',
        coalesce(%(now)s::timestamptz, statement_timestamp())
            - coalesce(cron_schedules.next_run_at, cron_schedules.active_since)
    ) AS late_by,
    cron_schedules.problem
FROM cron_schedules
WHERE cron_schedules.enabled
    AND cron_schedules.removed_at IS NULL
    AND (
        cron_schedules.problem <> ''
        OR coalesce(cron_schedules.next_run_at, cron_schedules.active_since)
            < coalesce(%(now)s::timestamptz, statement_timestamp()) - %(patience)s::interval
    )
ORDER BY due_at
LIMIT %(limit)s::integer
