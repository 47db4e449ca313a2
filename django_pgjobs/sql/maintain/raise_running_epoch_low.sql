-- raise_running_epoch_low: let nobody look for running rows before `epoch`, if none is left there.
--
-- epoch  bigint  the newest, as move_running_epoch returned it
--
-- Only after every claim has ended that may have read an older one: see list_claims. A row that
-- is being restamped still counts as left. Never lowers: see raise_epoch_low.
--
-- Returns one row with `epoch_low` when it was raised, none while rows are left.
-- Index   jobs_active_running
SELECT setval('jobs_running_epoch_low', greatest(jobs_running_epoch_low.last_value, %(epoch)s::bigint)) AS epoch_low
FROM jobs_running_epoch_low
WHERE NOT EXISTS (
    SELECT FROM (
        SELECT jobs_active.epoch
        FROM jobs_active
        WHERE jobs_active.epoch >= jobs_running_epoch_low.last_value
            AND jobs_active.epoch < %(epoch)s::bigint
            AND jobs_active.locked_at IS NOT NULL
        ORDER BY jobs_active.epoch
        LIMIT 1
    ) AS remaining
)
