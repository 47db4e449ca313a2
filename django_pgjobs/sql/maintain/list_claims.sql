-- list_claims: the transactions that may still start attempts in the epoch that was the newest.
--
-- A claim locks the sequence of running epochs before reading it, and holds the lock until it
-- ends. Whoever only enqueues never reads it, so a forgotten transaction is hardly ever listed.
--
-- Returns `claim` (a virtual transaction id) of each, other than the caller's.
SELECT pg_locks.virtualtransaction AS claim
FROM pg_locks
WHERE pg_locks.locktype = 'relation'
    AND pg_locks.relation = 'jobs_running_epoch'::regclass
    AND pg_locks.database = (SELECT pg_database.oid FROM pg_database WHERE pg_database.datname = current_database())
    AND pg_locks.pid IS DISTINCT FROM pg_backend_pid()
