-- count_pending: how many jobs are pending in the epochs that claims walk, counted up to `limit`.
--
-- limit  int  at least 1
--
-- A bounded count: its cost does not grow with the queue. Kept epochs are left out.
--
-- Returns `pending`, at most `limit`.
-- Index   jobs_active_claim
SELECT count(*)::integer AS pending
FROM (
    SELECT jobs_active.epoch
    FROM jobs_active
    WHERE jobs_active.epoch >= (SELECT jobs_epoch_low.last_value FROM jobs_epoch_low)
        AND jobs_active.status = 'pending'
    ORDER BY jobs_active.epoch
    LIMIT %(limit)s::integer
) AS bounded
