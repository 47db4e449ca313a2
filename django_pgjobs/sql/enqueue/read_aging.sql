-- read_aging: the queues whose priorities age.
--
-- What a COPY into jobs_active cannot look up for itself.
--
-- Returns `queue_name` and `priority_worth` (milliseconds of waiting) of each.
SELECT queue_config.queue_name,
    (extract(epoch FROM queue_config.priority_aging) * 1000)::bigint AS priority_worth
FROM queue_config
WHERE queue_config.priority_aging IS NOT NULL
