-- list_writers: the transactions that may still write into the epoch that was the newest.
--
-- Whoever writes jobs_active locks it before reading the newest epoch, and holds the lock until
-- it ends. A prepared transaction does so too. Who still waits for it counts: it has taken the time.
--
-- Returns `writer` (a virtual transaction id) of each, other than the caller's.
SELECT pg_locks.virtualtransaction AS writer
FROM pg_locks
WHERE pg_locks.locktype = 'relation'
    AND pg_locks.relation = 'jobs_active'::regclass
    AND pg_locks.database = (SELECT pg_database.oid FROM pg_database WHERE pg_database.datname = current_database())
    AND pg_locks.mode = 'RowExclusiveLock'
    AND pg_locks.pid IS DISTINCT FROM pg_backend_pid()
