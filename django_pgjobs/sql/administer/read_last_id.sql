-- read_last_id: how far the ids of jobs have come.
--
-- Returns `last_id`: no job enqueued before has a greater one.
SELECT jobs_id.last_value AS last_id
FROM jobs_id
