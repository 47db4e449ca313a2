-- stage_jobs: make up to `limit` waiting jobs pending whose time has come.
--
-- limit  int          at least 1
-- now    timestamptz  null for the server's clock; only tests pass a value
--
-- Safe to run in any number of processes at once. Rows are written by place: see claim_jobs. Looks
-- from jobs_waiting_floor on: while something holds back vacuum, only dead entries are before it. The
-- array of one floor keeps the planner from taking both bounds for a small range, and sorting it.
--
-- Returns one row: `staged` (how many) and `next_due` (until the next waiting job is due, at least
-- zero; null when none waits). While rows due are left, next_due is zero.
-- Locks   jobs_active rows, SKIP LOCKED, until commit.
-- Index   jobs_active_waiting
WITH due AS MATERIALIZED (
    SELECT jobs_active.ctid
    FROM jobs_active
    WHERE jobs_active.status IN ('scheduled', 'failed', 'retryable')
        AND jobs_active.scheduled_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
        AND jobs_active.scheduled_at >= ANY (
            ARRAY(
                SELECT timestamptz '1970-01-01 00:00:00+00' + jobs_waiting_floor.last_value * interval '1 microsecond'
                FROM jobs_waiting_floor
            )
        )
    ORDER BY jobs_active.scheduled_at
    LIMIT %(limit)s::integer
    FOR NO KEY UPDATE SKIP LOCKED
),
staged AS (
    UPDATE jobs_active
    SET status = 'pending',
        epoch = (SELECT jobs_epoch.last_value FROM jobs_epoch)
    WHERE jobs_active.ctid = ANY (ARRAY(SELECT due.ctid FROM due))
        AND jobs_active.locked_at IS NULL
    RETURNING jobs_active.id
)
SELECT counted.staged,
    CASE
        WHEN counted.staged = %(limit)s::integer THEN interval '0'
        ELSE (
            SELECT greatest(
                interval '0',
                jobs_active.scheduled_at - coalesce(%(now)s::timestamptz, clock_timestamp())
            )
            FROM jobs_active
            WHERE jobs_active.status IN ('scheduled', 'failed', 'retryable')
                AND jobs_active.scheduled_at > coalesce(%(now)s::timestamptz, statement_timestamp())
            ORDER BY jobs_active.scheduled_at
            LIMIT 1
        )
    END AS next_due
FROM (SELECT count(*)::integer AS staged FROM staged) AS counted
