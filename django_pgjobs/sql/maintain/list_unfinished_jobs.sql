-- list_unfinished_jobs: which of some jobs have not finished.
--
-- ids  bigint[]  the jobs; at least one
--
-- Second part of firing, and a statement of its own: only so does it see what was committed before
-- the schedules were locked.
--
-- Returns `id` of each unfinished job.
-- Index   the primary key
SELECT jobs_active.id
FROM jobs_active
WHERE jobs_active.id = ANY (%(ids)s::bigint[])
