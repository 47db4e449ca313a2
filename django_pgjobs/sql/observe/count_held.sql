-- count_held: how many jobs each breaker holds.
--
-- limit  int  jobs of each breaker are counted no further
--
-- Returns for each breaker `name` and `jobs` (at most `limit`).
-- Index   jobs_active_held_by
SELECT breakers.name,
    counted.jobs
FROM breakers
CROSS JOIN LATERAL (
    SELECT count(*)::integer AS jobs
    FROM (
        SELECT
        FROM jobs_active
        WHERE jobs_active.held_by = breakers.name
        LIMIT %(limit)s::integer
    ) AS first
) AS counted
ORDER BY breakers.name
