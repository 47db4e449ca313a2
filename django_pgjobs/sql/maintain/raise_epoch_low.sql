-- raise_epoch_low: let claims walk no epoch before `epoch`, if nothing is left in them.
--
-- epoch  bigint  the newest, as move_epoch returned it
--
-- A kept epoch does not count: claims find what is left there by its floors. A row that a claim
-- or a restamp has just locked still counts as left. A transaction that read the old epoch
-- and commits after this is found by the next restamp. Never lowers: a maintenance process that
-- was paused may come with an epoch that is over.
--
-- Returns one row with `epoch_low` when it was raised, none while rows are left.
-- Index   jobs_active_claim
SELECT setval('jobs_epoch_low', greatest(jobs_epoch_low.last_value, %(epoch)s::bigint)) AS epoch_low
FROM jobs_epoch_low
WHERE NOT EXISTS (
    SELECT FROM unnest(
        ARRAY(SELECT generate_series(jobs_epoch_low.last_value, %(epoch)s::bigint - 1))
    ) AS old (epoch)
    CROSS JOIN LATERAL (
        SELECT jobs_active.epoch
        FROM jobs_active
        WHERE jobs_active.epoch = old.epoch
            AND jobs_active.status = 'pending'
        ORDER BY jobs_active.epoch, jobs_active.queue_name
        LIMIT 1
    ) AS remaining
    WHERE NOT EXISTS (SELECT FROM kept_epochs WHERE kept_epochs.epoch = old.epoch)
)
