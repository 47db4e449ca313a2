-- restamp_running: move up to `limit` running rows of other epochs to the newest.
--
-- limit       int     at least 1
-- from_epoch  bigint  look at no older ones: each that is looked at costs its dead entries
--
-- Returns `id` of each row moved.
-- Locks   jobs_active rows, SKIP LOCKED, until commit.
-- Index   jobs_active_running
WITH stray AS MATERIALIZED (
    SELECT strays.id
    FROM jobs_running_epoch AS newest
    CROSS JOIN LATERAL (
        (
            SELECT jobs_active.id
            FROM jobs_active
            WHERE jobs_active.epoch >= %(from_epoch)s::bigint
                AND jobs_active.epoch < newest.last_value
                AND jobs_active.locked_at IS NOT NULL
            ORDER BY jobs_active.epoch
            LIMIT %(limit)s::integer
        )
        UNION ALL
        (
            SELECT jobs_active.id
            FROM jobs_active
            WHERE jobs_active.epoch > newest.last_value
                AND jobs_active.locked_at IS NOT NULL
            ORDER BY jobs_active.epoch
            LIMIT %(limit)s::integer
        )
    ) AS strays
    LIMIT %(limit)s::integer
),
held AS MATERIALIZED (
    SELECT job.id
    FROM stray
    CROSS JOIN LATERAL (
        SELECT jobs_active.id
        FROM jobs_active
        WHERE jobs_active.id = stray.id
            AND jobs_active.status = 'running'
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS job
)
UPDATE jobs_active
SET epoch = (SELECT jobs_running_epoch.last_value FROM jobs_running_epoch)
FROM held
WHERE jobs_active.id = held.id
    AND jobs_active.status = 'running'
RETURNING jobs_active.id
