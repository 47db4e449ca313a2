-- prune_slots: forget what became of up to `limit` slots that were recorded long ago.
--
-- retention  interval
-- limit      int          at least 1
-- now        timestamptz  null for the server's clock; only tests pass a value
--
-- They cannot fire again: each schedule remembers the last slot that was dealt with.
--
-- Returns `slot_at` of each.
-- Locks   cron_runs rows, SKIP LOCKED, until commit.
-- Index   cron_runs_recorded
WITH old AS MATERIALIZED (
    SELECT cron_runs.ctid
    FROM cron_runs
    WHERE cron_runs.recorded_at
        < coalesce(%(now)s::timestamptz, statement_timestamp()) - %(retention)s::interval
    ORDER BY cron_runs.recorded_at
    LIMIT %(limit)s::integer
    FOR UPDATE SKIP LOCKED
)
DELETE FROM cron_runs
WHERE cron_runs.ctid = ANY (ARRAY(SELECT old.ctid FROM old))
RETURNING slot_at
