-- list_holders: which breakers hold jobs.
--
-- Walks the distinct names by index probes, however many jobs each holds.
--
-- Returns `held_by` of each.
-- Index   jobs_active_held_by
WITH RECURSIVE holders AS (
    (
        SELECT jobs_active.held_by
        FROM jobs_active
        WHERE jobs_active.held_by IS NOT NULL
        ORDER BY jobs_active.held_by
        LIMIT 1
    )
    UNION ALL
    SELECT next.held_by
    FROM holders
    CROSS JOIN LATERAL (
        SELECT jobs_active.held_by
        FROM jobs_active
        WHERE jobs_active.held_by > holders.held_by
        ORDER BY jobs_active.held_by
        LIMIT 1
    ) AS next
)
SELECT holders.held_by
FROM holders
