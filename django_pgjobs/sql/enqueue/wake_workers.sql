-- wake_workers: notify some sleeping workers when the caller's transaction commits.
--
-- queue  text
-- count  int   at most so many workers
--
-- A hint that may get lost: polling finds the jobs too. It must never be able to fail the
-- caller's transaction, and a full notification queue of the server would: when
-- somebody's idle listener has filled half of it, nobody is notified. A worker that
-- nobody has heard of for ten minutes is gone.
--
-- The queue is the payload: a worker of many looks there first.
--
-- Returns `channel` of each worker notified.
WITH sleeping AS MATERIALIZED (
    SELECT job_workers.channel
    FROM job_workers
    WHERE %(queue)s::text = ANY (job_workers.idle_queues)
        AND job_workers.channel IS NOT NULL
        AND job_workers.heartbeat_at > clock_timestamp() - interval '10 minutes'
    ORDER BY random()
    LIMIT %(count)s::integer
)
SELECT sleeping.channel
FROM sleeping
CROSS JOIN LATERAL pg_notify(sleeping.channel, %(queue)s::text) AS notified
WHERE (SELECT pg_notification_queue_usage() < 0.5)
