-- list_slots: what became of the last slots of a schedule.
--
-- schedule_id  bigint
-- limit        int     at least 1
--
-- Returns `slot_at`, `kind`, `job_id` and the job's `status` (null when the job is gone) of each,
-- the latest first.
-- Index   the primary keys
SELECT cron_runs.slot_at,
    cron_runs.kind,
    cron_runs.job_id,
    coalesce(
        (
            SELECT jobs_active.status
            FROM jobs_active
            WHERE jobs_active.id = cron_runs.job_id
        ),
        (
            SELECT jobs_completed.status
            FROM jobs_completed
            WHERE jobs_completed.id = cron_runs.job_id
                AND jobs_completed.completed_at >= cron_runs.recorded_at
            LIMIT 1
        )
    )::text AS status
FROM cron_runs
WHERE cron_runs.schedule_id = %(schedule_id)s::bigint
ORDER BY cron_runs.slot_at DESC
LIMIT %(limit)s::integer
