-- lock_capped_tenants: take the right to claim for the capped tenants that claim_jobs will walk.
--
-- queue         text
-- walked        int     as for claim_jobs
-- after_tenant  bigint  as for claim_jobs
--
-- The first half of a claim under caps; claim_jobs is the second, in the same
-- transaction. Whoever holds a tenant's row is the only one who may start its jobs, and
-- counts them in a later statement, whose snapshot holds every claim committed before.
-- Both results go to the second half through settings that end with the transaction.
-- A tenant whose row somebody else holds, or is just editing, is left out.
--
-- Returns one row: `locked` (comma separated tenant ids) and `epoch_low`, both for claim_jobs.
-- Locks   tenant_config rows, SKIP LOCKED, until commit.
-- Index   jobs_active_claim
WITH place AS MATERIALIZED (
    SELECT oldest.last_value AS oldest,
        newest.last_value AS newest,
        floors.last_value AS floors
    FROM jobs_epoch_low AS oldest,
        jobs_epoch AS newest,
        jobs_floors AS floors
),
live AS MATERIALIZED (
    SELECT epochs.epoch
    FROM place,
        unnest(ARRAY(SELECT generate_series(place.oldest, place.newest))) AS epochs (epoch)
),
kept AS MATERIALIZED (
    SELECT epochs.epoch,
        place.floors
    FROM place,
        unnest(ARRAY(SELECT kept_epochs.epoch FROM kept_epochs WHERE kept_epochs.epoch < place.oldest)) AS epochs (epoch)
),
visited AS MATERIALIZED (
    SELECT begun.tenant_id
    FROM live
    CROSS JOIN LATERAL (
        WITH RECURSIVE above AS (
            (
                SELECT jobs_active.tenant_id
                FROM jobs_active
                WHERE jobs_active.epoch = live.epoch
                    AND jobs_active.queue_name = %(queue)s::text
                    AND jobs_active.status = 'pending'
                    AND jobs_active.tenant_id > %(after_tenant)s::bigint
                ORDER BY jobs_active.tenant_id
                LIMIT 1
            )
            UNION ALL
            SELECT next.tenant_id
            FROM above
            CROSS JOIN LATERAL (
                SELECT jobs_active.tenant_id
                FROM jobs_active
                WHERE jobs_active.epoch = live.epoch
                    AND jobs_active.queue_name = %(queue)s::text
                    AND jobs_active.status = 'pending'
                    AND jobs_active.tenant_id > above.tenant_id
                ORDER BY jobs_active.tenant_id
                LIMIT 1
            ) AS next
        ),
        below AS (
            (
                SELECT jobs_active.tenant_id
                FROM jobs_active
                WHERE jobs_active.epoch = live.epoch
                    AND jobs_active.queue_name = %(queue)s::text
                    AND jobs_active.status = 'pending'
                    AND jobs_active.tenant_id <= %(after_tenant)s::bigint
                ORDER BY jobs_active.tenant_id
                LIMIT 1
            )
            UNION ALL
            SELECT next.tenant_id
            FROM below
            CROSS JOIN LATERAL (
                SELECT jobs_active.tenant_id
                FROM jobs_active
                WHERE jobs_active.epoch = live.epoch
                    AND jobs_active.queue_name = %(queue)s::text
                    AND jobs_active.status = 'pending'
                    AND jobs_active.tenant_id > below.tenant_id
                    AND jobs_active.tenant_id <= %(after_tenant)s::bigint
                ORDER BY jobs_active.tenant_id
                LIMIT 1
            ) AS next
        )
        SELECT above.tenant_id FROM above
        UNION ALL
        SELECT below.tenant_id FROM below
        LIMIT %(walked)s::integer
    ) AS begun
    UNION ALL
    SELECT begun.tenant_id
    FROM kept
    CROSS JOIN LATERAL (
        (
            SELECT claim_floors.tenant_id
            FROM claim_floors
            CROSS JOIN LATERAL (
                SELECT jobs_active.id
                FROM jobs_active
                WHERE jobs_active.epoch = kept.epoch
                    AND jobs_active.queue_name = %(queue)s::text
                    AND jobs_active.tenant_id = claim_floors.tenant_id
                    AND jobs_active.status = 'pending'
                    AND (jobs_active.claim_order, jobs_active.id) >= (claim_floors.claim_order, claim_floors.job_id)
                ORDER BY jobs_active.claim_order, jobs_active.id
                LIMIT 1
            ) AS front
            WHERE claim_floors.generation = kept.floors
                AND claim_floors.epoch = kept.epoch
                AND claim_floors.queue_name = %(queue)s::text
                AND claim_floors.tenant_id > %(after_tenant)s::bigint
            ORDER BY claim_floors.tenant_id
        )
        UNION ALL
        (
            SELECT claim_floors.tenant_id
            FROM claim_floors
            CROSS JOIN LATERAL (
                SELECT jobs_active.id
                FROM jobs_active
                WHERE jobs_active.epoch = kept.epoch
                    AND jobs_active.queue_name = %(queue)s::text
                    AND jobs_active.tenant_id = claim_floors.tenant_id
                    AND jobs_active.status = 'pending'
                    AND (jobs_active.claim_order, jobs_active.id) >= (claim_floors.claim_order, claim_floors.job_id)
                ORDER BY jobs_active.claim_order, jobs_active.id
                LIMIT 1
            ) AS front
            WHERE claim_floors.generation = kept.floors
                AND claim_floors.epoch = kept.epoch
                AND claim_floors.queue_name = %(queue)s::text
                AND claim_floors.tenant_id <= %(after_tenant)s::bigint
            ORDER BY claim_floors.tenant_id
        )
        LIMIT %(walked)s::integer
    ) AS begun
),
locked AS MATERIALIZED (
    SELECT tenant_config.tenant_id
    FROM tenant_config
    WHERE tenant_config.tenant_id = ANY (ARRAY(SELECT visited.tenant_id FROM visited))
        AND tenant_config.max_concurrent_jobs IS NOT NULL
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT set_config('pgjobs.locked_tenants', listed.tenants, true) AS locked,
    set_config('pgjobs.running_epoch_low', jobs_running_epoch_low.last_value::text, true) AS epoch_low
FROM jobs_running_epoch_low,
    (SELECT coalesce(string_agg(locked.tenant_id::text, ','), '') AS tenants FROM locked) AS listed
