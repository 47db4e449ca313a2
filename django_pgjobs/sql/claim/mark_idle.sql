-- mark_idle: say for which queues a worker has found nothing for a while and may be woken.
--
-- worker_id  text
-- queues     text[]  empty for a worker that has work, or no room
--
-- Returns `worker_id`; nothing where the heartbeat has not put the worker on the list yet, or an
-- unclean restart of the server has emptied it.
UPDATE job_workers
SET idle_queues = %(queues)s::text[],
    idle_since = CASE WHEN cardinality(%(queues)s::text[]) > 0 THEN clock_timestamp() END
WHERE job_workers.worker_id = %(worker_id)s::text
RETURNING job_workers.worker_id
