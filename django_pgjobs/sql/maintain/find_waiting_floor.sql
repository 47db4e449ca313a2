-- find_waiting_floor: before which time no job waits.
--
-- Found from the floor there is on. At most the time a few seconds ago: whoever is writing now has
-- taken the time a moment ago.
--
-- Returns `floor` in microseconds since 1970.
-- Index   jobs_active_waiting
SELECT (extract(epoch FROM least(
        first.scheduled_at,
        statement_timestamp() - interval '5 seconds'
    )) * 1000000)::bigint AS floor
FROM (
    SELECT (
        SELECT jobs_active.scheduled_at
        FROM jobs_active
        WHERE jobs_active.status IN ('scheduled', 'failed', 'retryable')
            AND jobs_active.scheduled_at >= (
                SELECT timestamptz '1970-01-01 00:00:00+00' + jobs_waiting_floor.last_value * interval '1 microsecond'
                FROM jobs_waiting_floor
            )
        ORDER BY jobs_active.scheduled_at
        LIMIT 1
    ) AS scheduled_at
) AS first
