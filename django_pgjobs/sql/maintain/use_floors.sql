-- use_floors: let claims read the floors that write_floors has written.
--
-- generation  bigint
--
-- A statement of its own, after write_floors has been committed: a sequence is not read in a
-- snapshot. Never goes back.
--
-- Returns `generation`, which claims read.
SELECT setval('jobs_floors', greatest(jobs_floors.last_value, %(generation)s::bigint)) AS generation
FROM jobs_floors
