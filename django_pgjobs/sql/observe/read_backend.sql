-- read_backend: which server process answers.
--
-- Behind a pooler that is not the one that the connection was told of when it began.
--
-- Returns `pid`.
SELECT pg_backend_pid() AS pid
