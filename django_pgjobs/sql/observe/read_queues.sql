-- read_queues: how the queues stand.
--
-- limit  int  pending jobs of each queue are counted no further
--
-- Returns for each queue that has pending jobs, runs some, or is paused: `queue_name`, `is_paused`,
-- `pending` (at most `limit`), `running`, and `oldest_pending_age` (since the oldest
-- pending job was due, of the first `limit`; null when none is pending).
-- Index   jobs_active_claim, jobs_active_running
WITH RECURSIVE pending_queues AS (
    (
        SELECT jobs_active.epoch,
            jobs_active.queue_name
        FROM jobs_active
        WHERE jobs_active.epoch >= (SELECT jobs_epoch_low.last_value FROM jobs_epoch_low)
            AND jobs_active.status = 'pending'
        ORDER BY jobs_active.epoch, jobs_active.queue_name
        LIMIT 1
    )
    UNION ALL
    SELECT next.epoch,
        next.queue_name
    FROM pending_queues
    CROSS JOIN LATERAL (
        SELECT jobs_active.epoch,
            jobs_active.queue_name
        FROM jobs_active
        WHERE (jobs_active.epoch, jobs_active.queue_name) > (pending_queues.epoch, pending_queues.queue_name)
            AND jobs_active.status = 'pending'
        ORDER BY jobs_active.epoch, jobs_active.queue_name
        LIMIT 1
    ) AS next
),
kept_queues AS (
    (
        SELECT claim_floors.epoch,
            claim_floors.queue_name
        FROM claim_floors
        WHERE claim_floors.generation = (SELECT jobs_floors.last_value FROM jobs_floors)
            AND claim_floors.epoch < (SELECT jobs_epoch_low.last_value FROM jobs_epoch_low)
        ORDER BY claim_floors.epoch, claim_floors.queue_name
        LIMIT 1
    )
    UNION ALL
    SELECT next.epoch,
        next.queue_name
    FROM kept_queues
    CROSS JOIN LATERAL (
        SELECT claim_floors.epoch,
            claim_floors.queue_name
        FROM claim_floors
        WHERE claim_floors.generation = (SELECT jobs_floors.last_value FROM jobs_floors)
            AND claim_floors.epoch < (SELECT jobs_epoch_low.last_value FROM jobs_epoch_low)
            AND (claim_floors.epoch, claim_floors.queue_name) > (kept_queues.epoch, kept_queues.queue_name)
        ORDER BY claim_floors.epoch, claim_floors.queue_name
        LIMIT 1
    ) AS next
),
waiting AS (
    SELECT counted.queue_name,
        sum(counted.pending) AS pending,
        min(counted.oldest) AS oldest
    FROM (
        SELECT pending_queues.queue_name,
            bounded.pending,
            bounded.oldest
        FROM pending_queues
        CROSS JOIN LATERAL (
            SELECT count(*) AS pending,
                min(first.scheduled_at) AS oldest
            FROM (
                SELECT jobs_active.scheduled_at
                FROM jobs_active
                WHERE jobs_active.epoch = pending_queues.epoch
                    AND jobs_active.queue_name = pending_queues.queue_name
                    AND jobs_active.status = 'pending'
                ORDER BY jobs_active.tenant_id
                LIMIT %(limit)s::integer
            ) AS first
        ) AS bounded
        UNION ALL
        SELECT kept_queues.queue_name,
            bounded.pending,
            bounded.oldest
        FROM kept_queues
        CROSS JOIN LATERAL (
            SELECT count(*) AS pending,
                min(first.scheduled_at) AS oldest
            FROM (
                SELECT behind.scheduled_at
                FROM claim_floors
                CROSS JOIN LATERAL (
                    SELECT jobs_active.scheduled_at
                    FROM jobs_active
                    WHERE jobs_active.epoch = kept_queues.epoch
                        AND jobs_active.queue_name = kept_queues.queue_name
                        AND jobs_active.tenant_id = claim_floors.tenant_id
                        AND jobs_active.status = 'pending'
                        AND (jobs_active.claim_order, jobs_active.id) >= (claim_floors.claim_order, claim_floors.job_id)
                    ORDER BY jobs_active.claim_order, jobs_active.id
                    LIMIT %(limit)s::integer
                ) AS behind
                WHERE claim_floors.generation = (SELECT jobs_floors.last_value FROM jobs_floors)
                    AND claim_floors.epoch = kept_queues.epoch
                    AND claim_floors.queue_name = kept_queues.queue_name
                LIMIT %(limit)s::integer
            ) AS first
        ) AS bounded
    ) AS counted
    WHERE counted.pending > 0
    GROUP BY counted.queue_name
),
owned AS (
    SELECT jobs_active.queue_name,
        count(*) AS running
    FROM jobs_active
    WHERE jobs_active.epoch >= (SELECT jobs_running_epoch_low.last_value FROM jobs_running_epoch_low)
        AND jobs_active.locked_at IS NOT NULL
        AND jobs_active.status = 'running'
    GROUP BY jobs_active.queue_name
),
names AS (
    SELECT waiting.queue_name FROM waiting
    UNION
    SELECT owned.queue_name FROM owned
    UNION
    SELECT queue_config.queue_name FROM queue_config WHERE queue_config.paused
)
SELECT names.queue_name,
    coalesce(queue_config.paused, false) AS is_paused,
    least(coalesce(waiting.pending, 0), %(limit)s::integer)::integer AS pending,
    coalesce(owned.running, 0)::integer AS running,
    clock_timestamp() - waiting.oldest AS oldest_pending_age
FROM names
LEFT JOIN waiting ON waiting.queue_name = names.queue_name
LEFT JOIN owned ON owned.queue_name = names.queue_name
LEFT JOIN queue_config ON queue_config.queue_name = names.queue_name
ORDER BY names.queue_name
