-- list_queues: the queues that have pending jobs.
--
-- limit  int  at least 1
--
-- One index probe for each queue, however many jobs there are. A queue of a kept epoch is
-- listed until its floors are written next, even when its last job has just been claimed.
--
-- Returns `queue_name` of each.
-- Index   jobs_active_claim
WITH RECURSIVE queues AS (
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
    FROM queues
    CROSS JOIN LATERAL (
        SELECT jobs_active.epoch,
            jobs_active.queue_name
        FROM jobs_active
        WHERE (jobs_active.epoch, jobs_active.queue_name) > (queues.epoch, queues.queue_name)
            AND jobs_active.status = 'pending'
        ORDER BY jobs_active.epoch, jobs_active.queue_name
        LIMIT 1
    ) AS next
),
kept AS (
    (
        SELECT claim_floors.epoch,
            claim_floors.queue_name
        FROM claim_floors
        WHERE claim_floors.generation = (SELECT jobs_floors.last_value FROM jobs_floors)
        ORDER BY claim_floors.epoch, claim_floors.queue_name
        LIMIT 1
    )
    UNION ALL
    SELECT next.epoch,
        next.queue_name
    FROM kept
    CROSS JOIN LATERAL (
        SELECT claim_floors.epoch,
            claim_floors.queue_name
        FROM claim_floors
        WHERE claim_floors.generation = (SELECT jobs_floors.last_value FROM jobs_floors)
            AND (claim_floors.epoch, claim_floors.queue_name) > (kept.epoch, kept.queue_name)
        ORDER BY claim_floors.epoch, claim_floors.queue_name
        LIMIT 1
    ) AS next
)
SELECT DISTINCT limited.queue_name
FROM (
    SELECT queues.queue_name
    FROM queues
    UNION ALL
    SELECT kept.queue_name
    FROM kept
    LIMIT %(limit)s::integer
) AS limited
