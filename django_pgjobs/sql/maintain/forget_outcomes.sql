-- forget_outcomes: drop counts of outcomes that no breaker and no retry budget looks at any more.
--
-- kept   interval  at least the longest period
-- limit  int       at least 1
--
-- Returns `subject` of each count.
-- Locks   the rows, SKIP LOCKED, until commit.
-- Index   outcome_counts_age
WITH old AS MATERIALIZED (
    SELECT outcome_counts.ctid
    FROM outcome_counts
    WHERE outcome_counts.counted_at < clock_timestamp() - %(kept)s::interval
    ORDER BY outcome_counts.counted_at
    LIMIT %(limit)s::integer
    FOR UPDATE SKIP LOCKED
)
DELETE FROM outcome_counts
WHERE outcome_counts.ctid = ANY (ARRAY(SELECT old.ctid FROM old))
RETURNING outcome_counts.subject
