-- release_held_jobs: make up to `limit` jobs pending again that a breaker holds, the oldest first.
--
-- breaker   text
-- limit     int      at least 1
-- is_probe  boolean  let them through though the breaker is not closed
--
-- Returns `queue_name` of each.
-- Locks   jobs_active rows, SKIP LOCKED, until commit.
-- Index   jobs_active_held_by
WITH picked AS MATERIALIZED (
    SELECT jobs_active.ctid
    FROM jobs_active
    WHERE jobs_active.held_by = %(breaker)s::text
    ORDER BY jobs_active.id
    LIMIT %(limit)s::integer
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE jobs_active
SET status = 'pending',
    epoch = (SELECT jobs_epoch.last_value FROM jobs_epoch),
    held_by = NULL,
    is_probe = %(is_probe)s::boolean
WHERE jobs_active.ctid = ANY (ARRAY(SELECT picked.ctid FROM picked))
    AND jobs_active.locked_at IS NULL
RETURNING jobs_active.queue_name
