-- record_worker: say that a worker is alive.
--
-- worker_id    text
-- hostname     text
-- pid          int
-- queues       text[]
-- concurrency  int
-- running      int     attempts it has in hand
--
-- Returns nothing.
INSERT INTO job_workers AS worker (
    worker_id,
    hostname,
    pid,
    queues,
    concurrency,
    running,
    started_at,
    heartbeat_at
)
VALUES (
    %(worker_id)s::text,
    %(hostname)s::text,
    %(pid)s::integer,
    %(queues)s::text[],
    %(concurrency)s::integer,
    %(running)s::integer,
    clock_timestamp(),
    clock_timestamp()
)
ON CONFLICT (worker_id) DO UPDATE
SET running = %(running)s::integer,
    heartbeat_at = clock_timestamp()
