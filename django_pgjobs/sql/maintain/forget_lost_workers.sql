-- forget_lost_workers: drop workers not heard of for a long time.
--
-- silence  interval
--
-- Presence only: what a lost worker held comes back through its leases.
--
-- Returns `worker_id` of each.
DELETE FROM job_workers
WHERE job_workers.heartbeat_at < clock_timestamp() - %(silence)s::interval
RETURNING job_workers.worker_id
