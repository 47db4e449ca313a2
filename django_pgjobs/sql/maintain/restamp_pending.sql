-- restamp_pending: move up to `limit` pending rows that claims do not see to the newest epoch.
--
-- limit       int     at least 1
-- from_epoch  bigint  look at no older ones: each that is looked at costs its dead entries
--
-- What was left behind by a move, what a transaction that began before a move committed
-- after it, and rows of an epoch that does not exist yet (a restored backup whose
-- sequences were not). In a kept epoch, what lies before its floor or has none.
--
-- Returns `id` of each row moved.
-- Locks   jobs_active rows, SKIP LOCKED, until commit.
-- Index   jobs_active_claim
WITH RECURSIVE place AS MATERIALIZED (
    SELECT oldest.last_value AS oldest,
        newest.last_value AS newest,
        floors.last_value AS floors
    FROM jobs_epoch_low AS oldest,
        jobs_epoch AS newest,
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
        WHERE jobs_active.epoch >= %(from_epoch)s::bigint
            AND jobs_active.epoch < (SELECT place.oldest FROM place)
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
            AND jobs_active.epoch < (SELECT place.oldest FROM place)
            AND jobs_active.status = 'pending'
        ORDER BY jobs_active.epoch,
            jobs_active.queue_name,
            jobs_active.tenant_id,
            jobs_active.claim_order,
            jobs_active.id
        LIMIT 1
    ) AS next
),
stray AS MATERIALIZED (
    SELECT strays.id
    FROM (
        SELECT lost.id
        FROM place
        CROSS JOIN begun
        LEFT JOIN kept_epochs ON kept_epochs.epoch = begun.epoch
        LEFT JOIN LATERAL (
            SELECT claim_floors.claim_order,
                claim_floors.job_id
            FROM claim_floors
            WHERE claim_floors.generation = place.floors
                AND claim_floors.epoch = kept_epochs.epoch
                AND claim_floors.queue_name = begun.queue_name
                AND claim_floors.tenant_id = begun.tenant_id
            LIMIT 1
        ) AS floor ON true
        CROSS JOIN LATERAL (
            SELECT jobs_active.id
            FROM jobs_active
            WHERE jobs_active.epoch = begun.epoch
                AND jobs_active.queue_name = begun.queue_name
                AND jobs_active.tenant_id = begun.tenant_id
                AND jobs_active.status = 'pending'
                AND (jobs_active.claim_order, jobs_active.id) >= (begun.claim_order, begun.id)
                AND (
                    floor.claim_order IS NULL
                    OR (jobs_active.claim_order, jobs_active.id) < (floor.claim_order, floor.job_id)
                )
            ORDER BY jobs_active.claim_order, jobs_active.id
            LIMIT %(limit)s::integer
        ) AS lost
        UNION ALL
        SELECT behind.id
        FROM place
        CROSS JOIN LATERAL (
            SELECT jobs_active.id
            FROM jobs_active
            WHERE jobs_active.epoch >= greatest(place.oldest, %(from_epoch)s::bigint)
                AND jobs_active.epoch < place.newest
                AND jobs_active.status = 'pending'
            ORDER BY jobs_active.epoch
            LIMIT %(limit)s::integer
        ) AS behind
        UNION ALL
        SELECT ahead.id
        FROM place
        CROSS JOIN LATERAL (
            SELECT jobs_active.id
            FROM jobs_active
            WHERE jobs_active.epoch > place.newest
                AND jobs_active.status = 'pending'
            ORDER BY jobs_active.epoch
            LIMIT %(limit)s::integer
        ) AS ahead
    ) AS strays
    LIMIT %(limit)s::integer
),
held AS MATERIALIZED (
    SELECT job.id
    FROM stray
    CROSS JOIN LATERAL (
        SELECT jobs_active.id
        FROM jobs_active
        WHERE jobs_active.id = stray.id
            AND jobs_active.status = 'pending'
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS job
)
UPDATE jobs_active
SET epoch = (SELECT place.newest FROM place)
FROM held
WHERE jobs_active.id = held.id
    AND jobs_active.status = 'pending'
RETURNING jobs_active.id
