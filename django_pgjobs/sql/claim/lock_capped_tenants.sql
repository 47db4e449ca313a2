-- lock_capped_tenants: take the right to claim for the capped tenants that claim_jobs will walk.
--
-- queue         text
-- limit         int     as for claim_jobs
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
WITH live AS MATERIALIZED (
    SELECT epochs.epoch
    FROM jobs_epoch_low AS oldest,
        jobs_epoch AS newest,
        unnest(ARRAY(SELECT generate_series(oldest.last_value, newest.last_value))) AS epochs (epoch)
),
visited AS MATERIALIZED (
    SELECT walk.tenant_id
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
        LIMIT greatest(%(limit)s::integer, 16)
    ) AS walk
),
locked AS MATERIALIZED (
    SELECT tenant_config.tenant_id
    FROM tenant_config
    WHERE tenant_config.tenant_id = ANY (ARRAY(SELECT visited.tenant_id FROM visited))
        AND tenant_config.max_concurrent_jobs IS NOT NULL
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT set_config('pgjobs.locked_tenants', listed.tenants, true) AS locked,
    set_config('pgjobs.epoch_low', jobs_epoch_low.last_value::text, true) AS epoch_low
FROM jobs_epoch_low,
    (SELECT coalesce(string_agg(locked.tenant_id::text, ','), '') AS tenants FROM locked) AS listed
