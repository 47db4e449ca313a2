-- set_waiting_floor: let the stager begin to look at `floor`.
--
-- floor  bigint  in microseconds since 1970; 1 for the beginning
--
-- Returns `floor`.
SELECT setval('jobs_waiting_floor', greatest(1, %(floor)s::bigint)) AS floor
