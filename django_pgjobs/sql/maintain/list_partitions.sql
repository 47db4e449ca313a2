-- list_partitions: the partitions of one history table, by the catalogue's own bounds.
--
-- table_name  text  jobs_completed or job_attempts
--
-- Returns for each attached partition but DEFAULT: `name` (qualified and quoted, ready for
-- use in a statement), `starts_at` and `ends_at` (null for an unbounded side).
SELECT format('%%I.%%I', namespace.nspname, partition.relname) AS name,
    substring(pg_get_expr(partition.relpartbound, partition.oid) FROM 'FROM \(''([^'']+)''\)')::timestamptz AS starts_at,
    substring(pg_get_expr(partition.relpartbound, partition.oid) FROM 'TO \(''([^'']+)''\)')::timestamptz AS ends_at
FROM pg_inherits AS inherits
JOIN pg_class AS partition ON partition.oid = inherits.inhrelid
JOIN pg_namespace AS namespace ON namespace.oid = partition.relnamespace
WHERE inherits.inhparent = %(table_name)s::regclass
    AND NOT inherits.inhdetachpending
    AND pg_get_expr(partition.relpartbound, partition.oid) <> 'DEFAULT'
ORDER BY ends_at
