-- read_table_sizes: how large the tables of jobs are, each partition of the history by itself.
--
-- Returns `name` and `pages` of each, as they are now: statistics may be old, or missing.
SELECT pg_class.relname AS name,
    pg_relation_size(pg_class.oid) / current_setting('block_size')::bigint AS pages
FROM (
    SELECT 'jobs_active'::regclass AS relid
    UNION ALL
    SELECT completed.relid
    FROM pg_partition_tree('jobs_completed') AS completed
    UNION ALL
    SELECT attempts.relid
    FROM pg_partition_tree('job_attempts') AS attempts
) AS tables
JOIN pg_class ON pg_class.oid = tables.relid
