-- record_worker: say that a worker is alive.
--
-- worker_id    text
-- hostname     text
-- pid          int
-- queues       text[]
-- concurrency  int
-- running      int     attempts it has in hand
-- channel      text    on which it listens, or null
--
-- Returns nothing.
INSERT INTO job_workers AS worker (
    worker_id,
    hostname,
    pid,
    queues,
    concurrency,
    running,
    channel,
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
    %(channel)s::text,
    clock_timestamp(),
    clock_timestamp()
)
ON CONFLICT (worker_id) DO UPDATE
SET queues = %(queues)s::text[],
    running = %(running)s::integer,
    channel = %(channel)s::text,
    heartbeat_at = clock_timestamp()
