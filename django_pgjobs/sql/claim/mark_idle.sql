-- mark_idle: a worker has found nothing for a while and may be woken.
--
-- worker_id  text
--
-- Returns nothing.
UPDATE job_workers
SET idle_since = clock_timestamp()
WHERE job_workers.worker_id = %(worker_id)s::text
