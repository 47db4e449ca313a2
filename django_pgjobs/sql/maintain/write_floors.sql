-- write_floors: keep the epochs before `epoch`, and note where each tenant's rows begin in them.
--
-- epoch  bigint  the newest, to keep all that are older; the lowest, to keep no more of them
--
-- Two things in one snapshot: the floors there are move up behind what has been claimed since,
-- and epochs that claims have walked so far become kept ones, each row found by its floor.
-- Rows that somebody has locked count: a claim that is rolled back leaves them where they are.
-- What commits into such an epoch later is found by restamp_pending.
--
-- The floors are those of the next generation, which nobody reads before use_floors. A
-- generation that somebody left half-way is gone on with: its floors are lower, and as good. In
-- order, so that two maintenance processes that both believe to lead wait for each other instead of
-- deadlocking.
--
-- Returns one row: `generation` and `floors` (how many).
-- Index   jobs_active_claim
WITH RECURSIVE place AS MATERIALIZED (
    SELECT oldest.last_value AS oldest,
        floors.last_value AS floors
    FROM jobs_epoch_low AS oldest,
        jobs_floors AS floors
),
begun AS (
    (
        SELECT jobs_active.epoch,
            jobs_active.queue_name,
            jobs_active.tenant_id,
            jobs_active.claim_order,
            jobs_active.id
        FROM jobs_active
        WHERE jobs_active.epoch >= (SELECT place.oldest FROM place)
            AND jobs_active.epoch < %(epoch)s::bigint
            AND jobs_active.status = 'pending'
        ORDER BY jobs_active.epoch,
            jobs_active.queue_name,
            jobs_active.tenant_id,
            jobs_active.claim_order,
            jobs_active.id
        LIMIT 1
    )
    UNION ALL
    SELECT next.epoch,
        next.queue_name,
        next.tenant_id,
        next.claim_order,
        next.id
    FROM begun
    CROSS JOIN LATERAL (
        SELECT jobs_active.epoch,
            jobs_active.queue_name,
            jobs_active.tenant_id,
            jobs_active.claim_order,
            jobs_active.id
        FROM jobs_active
        WHERE (jobs_active.epoch, jobs_active.queue_name, jobs_active.tenant_id)
            > (begun.epoch, begun.queue_name, begun.tenant_id)
            AND jobs_active.epoch < %(epoch)s::bigint
            AND jobs_active.status = 'pending'
        ORDER BY jobs_active.epoch,
            jobs_active.queue_name,
            jobs_active.tenant_id,
            jobs_active.claim_order,
            jobs_active.id
        LIMIT 1
    ) AS next
),
kept AS (
    INSERT INTO kept_epochs (epoch)
    SELECT DISTINCT begun.epoch
    FROM begun
    ORDER BY begun.epoch
    ON CONFLICT (epoch) DO NOTHING
),
written AS (
    INSERT INTO claim_floors (
        generation,
        epoch,
        queue_name,
        tenant_id,
        claim_order,
        job_id
    )
    SELECT floors.generation,
        floors.epoch,
        floors.queue_name,
        floors.tenant_id,
        floors.claim_order,
        floors.job_id
    FROM (
        SELECT place.floors + 1 AS generation,
            begun.epoch,
            begun.queue_name,
            begun.tenant_id,
            begun.claim_order,
            begun.id AS job_id
        FROM place
        CROSS JOIN begun
        UNION ALL
        SELECT place.floors + 1,
            claim_floors.epoch,
            claim_floors.queue_name,
            claim_floors.tenant_id,
            front.claim_order,
            front.id
        FROM place
        JOIN claim_floors
            ON claim_floors.generation = place.floors
            AND claim_floors.epoch < place.oldest
        CROSS JOIN LATERAL (
            SELECT jobs_active.claim_order,
                jobs_active.id
            FROM jobs_active
            WHERE jobs_active.epoch = claim_floors.epoch
                AND jobs_active.queue_name = claim_floors.queue_name
                AND jobs_active.tenant_id = claim_floors.tenant_id
                AND jobs_active.status = 'pending'
                AND (jobs_active.claim_order, jobs_active.id) >= (claim_floors.claim_order, claim_floors.job_id)
            ORDER BY jobs_active.claim_order, jobs_active.id
            LIMIT 1
        ) AS front
    ) AS floors
    ORDER BY floors.epoch,
        floors.queue_name,
        floors.tenant_id
    ON CONFLICT (generation, epoch, queue_name, tenant_id) DO NOTHING
    RETURNING claim_order
)
SELECT place.floors + 1 AS generation,
    (SELECT count(*)::integer FROM written) AS floors
FROM place
