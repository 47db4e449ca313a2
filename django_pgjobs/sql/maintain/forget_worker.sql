-- forget_worker: a worker has stopped in good order.
--
-- worker_id  text
--
-- Returns nothing.
DELETE FROM job_workers
WHERE job_workers.worker_id = %(worker_id)s::text
