-- mark_busy: a worker has work again and need not be woken.
--
-- worker_id  text
--
-- Returns nothing.
UPDATE job_workers
SET idle_since = NULL
WHERE job_workers.worker_id = %(worker_id)s::text
