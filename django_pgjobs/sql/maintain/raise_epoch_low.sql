-- raise_epoch_low: take the old epochs out of the claim, if nothing is left in them.
--
-- epoch  bigint  the newest, as move_epoch returned it
--
-- A row that a claim or a restamp has just locked still counts as left. A transaction
-- that read the old epoch and commits after this is found by the next restamp.
--
-- Returns one row with `epoch_low` when it was raised, none while rows are left.
-- Index   jobs_active_claim, jobs_active_running
SELECT setval('jobs_epoch_low', %(epoch)s::bigint) AS epoch_low
WHERE NOT EXISTS (
    SELECT FROM jobs_active
    WHERE jobs_active.epoch < %(epoch)s::bigint
        AND jobs_active.status = 'pending'
)
    AND NOT EXISTS (
        SELECT FROM jobs_active
        WHERE jobs_active.epoch < %(epoch)s::bigint
            AND jobs_active.status = 'running'
    )
