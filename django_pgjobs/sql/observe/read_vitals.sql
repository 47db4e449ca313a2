-- read_vitals: whether workers, maintenance and partitions are as they should be.
--
-- silence  interval  a worker or leader not heard of for this long does not count
--
-- Returns one row: `workers` (heard of), `leader_id` (of maintenance, or null), `expired_leases`
-- (not reaped yet), `overdue` (waiting jobs due for more than ten seconds and not staged, counted
-- up to 1,000) and `strays` (rows in a DEFAULT partition, counted up to 1,000).
--
-- Waiting jobs are counted in order: where many are expected to be due, and none is, the planner
-- would look for the first of them in the whole table.
-- Index   jobs_active_running, jobs_active_waiting
SELECT (
        SELECT count(*)::integer
        FROM job_workers
        WHERE job_workers.heartbeat_at > clock_timestamp() - %(silence)s::interval
    ) AS workers,
    (
        SELECT maintenance_leader.leader_id
        FROM maintenance_leader
        WHERE maintenance_leader.expires_at > clock_timestamp() - %(silence)s::interval
        LIMIT 1
    ) AS leader_id,
    (
        SELECT count(*)::integer
        FROM jobs_active
        WHERE jobs_active.status = 'running'
            AND jobs_active.locked_at IS NOT NULL
            AND jobs_active.epoch >= (SELECT jobs_running_epoch_low.last_value FROM jobs_running_epoch_low)
            AND jobs_active.lease_expires < clock_timestamp()
    ) AS expired_leases,
    (
        SELECT count(*)::integer
        FROM (
            SELECT FROM jobs_active
            WHERE jobs_active.status IN ('scheduled', 'failed', 'retryable')
                AND jobs_active.scheduled_at < statement_timestamp() - interval '10 seconds'
            ORDER BY jobs_active.scheduled_at
            LIMIT 1000
        ) AS due
    ) AS overdue,
    (
        SELECT count(*)::integer
        FROM (
            (SELECT FROM jobs_completed_default LIMIT 1000)
            UNION ALL
            (SELECT FROM job_attempts_default LIMIT 1000)
            LIMIT 1000
        ) AS netted
    ) AS strays
