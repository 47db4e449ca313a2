-- mark_idle: a worker has found nothing for a while and may be woken.
--
-- worker_id  text
-- queues     text[]  for whose jobs
--
-- Returns `worker_id`; nothing where the heartbeat has not put the worker on the list yet, or an
-- unclean restart of the server has emptied it.
UPDATE job_workers
SET idle_since = clock_timestamp(),
    queues = %(queues)s::text[]
WHERE job_workers.worker_id = %(worker_id)s::text
RETURNING job_workers.worker_id
