-- raise_epoch_low: take the old epochs out of the claim, if nothing is left in them.
--
-- epoch  bigint  the newest, as move_epoch returned it
--
-- A row that a claim or a restamp has just locked still counts as left. A transaction
-- that read the old epoch and commits after this is found by the next restamp. Never lowers:
-- a maintenance process that was paused may come with an epoch that is over. Epochs below
-- the present low are not looked at: claims do not see them either.
--
-- Returns one row with `epoch_low` when it was raised, none while rows are left.
-- Index   jobs_active_claim, jobs_active_running
SELECT setval('jobs_epoch_low', greatest(jobs_epoch_low.last_value, %(epoch)s::bigint)) AS epoch_low
FROM jobs_epoch_low
WHERE NOT EXISTS (
    SELECT FROM (
        SELECT min(jobs_active.epoch) AS epoch
        FROM jobs_active
        WHERE jobs_active.epoch >= jobs_epoch_low.last_value
            AND jobs_active.status = 'pending'
        UNION ALL
        SELECT min(jobs_active.epoch)
        FROM jobs_active
        WHERE jobs_active.epoch >= jobs_epoch_low.last_value
            AND jobs_active.status = 'running'
            AND jobs_active.locked_at IS NOT NULL
    ) AS oldest
    WHERE oldest.epoch < %(epoch)s::bigint
)
