-- read_connection_limits: how many connections the caller may have, and how many there are.
--
-- The connection that asks is not counted. Superusers may have more. PostgreSQL 15 reserves
-- connections for superusers only.
--
-- Returns for each limit that is set: `holder` (server, database or role), `allowed` and `in_use`.
SELECT limits.holder,
    limits.allowed,
    (
        SELECT count(*)::integer
        FROM pg_stat_activity
        WHERE pg_stat_activity.backend_type = 'client backend'
            AND pg_stat_activity.pid <> pg_backend_pid()
            AND (limits.holder <> 'database' OR pg_stat_activity.datname = current_database())
            AND (limits.holder <> 'role' OR pg_stat_activity.usename = session_user)
    ) AS in_use
FROM (
    SELECT 'server' AS holder,
        current_setting('max_connections')::integer
            - current_setting('superuser_reserved_connections')::integer
            - coalesce(current_setting('reserved_connections', true)::integer, 0) AS allowed
    UNION ALL
    SELECT 'database',
        pg_database.datconnlimit
    FROM pg_database
    WHERE pg_database.datname = current_database()
    UNION ALL
    SELECT 'role',
        pg_roles.rolconnlimit
    FROM pg_roles
    WHERE pg_roles.rolname = session_user
) AS limits
WHERE limits.allowed >= 0
ORDER BY limits.holder
