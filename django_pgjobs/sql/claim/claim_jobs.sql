-- claim_jobs: start an attempt on up to `limit` pending jobs of one queue, fairly between tenants.
--
-- queue           text      one queue; claims of several queues are several statements
-- worker_id       text      unique for each start of a worker process
-- limit           int       at least 1
-- lease           interval  how long the attempt is believed alive without a renewal
-- after_tenant    bigint    the tenant where the last walk of this queue ended; any number at first
-- offset          float8    uniform in [0, 1): where the rounding of the shares starts
-- default_weight  int       of a tenant without a row in tenant_config
-- now             timestamptz  null for the server's clock; only tests pass a value
--
-- Walks the distinct tenants that have pending jobs, at most `limit` of them,
-- starting behind `after_tenant` and round to it again: one index probe each,
-- however many tenants there are. Each gets the part of `limit` that brings its
-- running jobs nearest to its weight's share of all that runs (max-min fairness);
-- fractions are rounded by systematic sampling, so that shares are exact on
-- average and their sum is `limit`. See docs/explanation/fairness.md.
--
-- A tenant with a cap takes part only when lock_capped_tenants has locked its
-- row earlier in this transaction: this statement's snapshot is younger than that
-- lock, so its count of running jobs cannot miss another claim. It counts from the epoch
-- that was the lowest then: sequences are not read in the snapshot, and a row that
-- has been restamped since is in its old epoch there.
--
-- Rows are written by place, which the planner can do in one way only. Joined with what was
-- picked, it hashes the whole table where it expects many.
--
-- Returns a row for each claimed job, in no order, or one row with a null id.
-- Each carries what the walk saw: `tenants` (how many), `last_tenant` (the next
-- after_tenant), `sole_tenant` (the only one with work, or null), `is_truncated`
-- (more tenants than were walked) and `capped` (a capped tenant waits and was not locked).
-- Locks   jobs_active rows while picking, SKIP LOCKED, until commit. With the lock
--         after the pick, concurrent claimers choose the same rows and come back empty.
-- Index   jobs_active_claim, jobs_active_running (plans asserted in tests/sql/test_plans.py)
WITH live AS MATERIALIZED (
    SELECT epochs.epoch,
        newest.last_value AS newest
    FROM jobs_epoch_low AS oldest,
        jobs_epoch AS newest,
        unnest(ARRAY(SELECT generate_series(oldest.last_value, newest.last_value))) AS epochs (epoch)
    WHERE NOT EXISTS (
        SELECT FROM queue_config
        WHERE queue_config.queue_name = %(queue)s::text
            AND queue_config.paused
    )
),
visited AS MATERIALIZED (
    SELECT ordered.tenant_id,
        row_number() OVER () AS step
    FROM (
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
            LIMIT %(limit)s::integer
        ) AS walk
        GROUP BY walk.tenant_id
        ORDER BY walk.tenant_id <= %(after_tenant)s::bigint,
            walk.tenant_id
        LIMIT %(limit)s::integer
    ) AS ordered
),
summary AS MATERIALIZED (
    SELECT count(*)::integer AS tenants,
        coalesce((array_agg(visited.tenant_id ORDER BY visited.step DESC))[1], %(after_tenant)s::bigint) AS last_tenant,
        CASE WHEN min(visited.tenant_id) = max(visited.tenant_id) THEN min(visited.tenant_id) END AS sole_tenant,
        count(*) >= %(limit)s::integer AS is_truncated
    FROM visited
),
entitled AS MATERIALIZED (
    SELECT visited.tenant_id,
        visited.step,
        coalesce(tenant_config.quota_weight, %(default_weight)s::integer)::float8 AS weight,
        tenant_config.priority_boost,
        running.count AS running,
        CASE
            WHEN tenant_config.max_concurrent_jobs IS NULL THEN %(limit)s::integer
            WHEN visited.tenant_id = ANY (string_to_array(current_setting('pgjobs.locked_tenants', true), ',')::bigint[])
                THEN greatest(0, tenant_config.max_concurrent_jobs - capped.count)
        END AS room
    FROM visited
    LEFT JOIN tenant_config ON tenant_config.tenant_id = visited.tenant_id
    CROSS JOIN LATERAL (
        SELECT count(*) AS count
        FROM jobs_active
        WHERE jobs_active.epoch = ANY (ARRAY(SELECT live.epoch FROM live))
            AND jobs_active.tenant_id = visited.tenant_id
            AND jobs_active.queue_name = %(queue)s::text
            AND jobs_active.status = 'running'
    ) AS running
    CROSS JOIN LATERAL (
        SELECT count(*) AS count
        FROM jobs_active
        WHERE tenant_config.max_concurrent_jobs IS NOT NULL
            AND jobs_active.epoch = ANY (
                ARRAY(
                    SELECT generate_series(
                        least(jobs_epoch_low.last_value, nullif(current_setting('pgjobs.epoch_low', true), '')::bigint),
                        jobs_epoch.last_value
                    )
                    FROM jobs_epoch_low,
                        jobs_epoch
                )
            )
            AND jobs_active.tenant_id = visited.tenant_id
            AND jobs_active.status = 'running'
    ) AS capped
),
needs AS (
    SELECT entitled.tenant_id,
        entitled.step,
        entitled.room,
        least(
            entitled.room,
            greatest(
                0,
                (sum(entitled.running) OVER () + %(limit)s::integer)
                    * entitled.weight / sum(entitled.weight) OVER ()
                    - entitled.running
            )
        ) AS need
    FROM entitled
    WHERE entitled.room > 0
),
shares AS (
    SELECT needs.tenant_id,
        needs.room,
        needs.need * %(limit)s::integer / nullif(sum(needs.need) OVER (), 0) AS share,
        sum(needs.need) OVER (ORDER BY needs.step)
            * %(limit)s::integer / nullif(sum(needs.need) OVER (), 0) AS upto
    FROM needs
),
quotas AS MATERIALIZED (
    SELECT shares.tenant_id,
        least(
            shares.room,
            floor(shares.upto + %(offset)s::float8) - floor(shares.upto - shares.share + %(offset)s::float8)
        )::integer AS quota
    FROM shares
),
picked AS MATERIALIZED (
    SELECT job.ctid
    FROM quotas
    CROSS JOIN LATERAL (
        SELECT urgent.ctid
        FROM live
        CROSS JOIN LATERAL (
            SELECT jobs_active.ctid
            FROM jobs_active
            WHERE jobs_active.epoch = live.epoch
                AND jobs_active.queue_name = %(queue)s::text
                AND jobs_active.tenant_id = quotas.tenant_id
                AND jobs_active.status = 'pending'
                AND (
                    jobs_active.expires_at IS NULL
                    OR jobs_active.expires_at > coalesce(%(now)s::timestamptz, clock_timestamp())
                )
            ORDER BY jobs_active.priority DESC, jobs_active.scheduled_at, jobs_active.id
            LIMIT quotas.quota
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS urgent
        LIMIT quotas.quota
    ) AS job
    WHERE quotas.quota > 0
    LIMIT %(limit)s::integer
),
claimed AS (
    UPDATE jobs_active
    SET status = 'running',
        epoch = (SELECT max(live.newest) FROM live),
        attempt = jobs_active.attempt + 1,
        claims = jobs_active.claims + 1,
        locked_by = %(worker_id)s::text,
        locked_at = coalesce(%(now)s::timestamptz, clock_timestamp()),
        started_at = coalesce(jobs_active.started_at, %(now)s::timestamptz, clock_timestamp()),
        lease_expires = coalesce(%(now)s::timestamptz, clock_timestamp()) + %(lease)s::interval,
        fence_token = nextval('jobs_fence') << 16 | floor(random() * 65536)::bigint
    WHERE jobs_active.ctid = ANY (ARRAY(SELECT picked.ctid FROM picked))
        AND jobs_active.status = 'pending'
    RETURNING jobs_active.id,
        jobs_active.job_name,
        jobs_active.tenant_id,
        jobs_active.queue_name,
        jobs_active.priority,
        jobs_active.scheduled_at,
        jobs_active.fence_token,
        jobs_active.attempt,
        jobs_active.max_attempts,
        jobs_active.claims,
        jobs_active.payload::text AS payload,
        jobs_active.payload_version,
        jobs_active.meta::text AS meta
)
SELECT claimed.id,
    claimed.job_name,
    claimed.tenant_id,
    claimed.queue_name,
    claimed.priority,
    claimed.scheduled_at,
    claimed.fence_token,
    claimed.attempt,
    claimed.max_attempts,
    claimed.claims,
    claimed.payload,
    claimed.payload_version,
    claimed.meta,
    summary.tenants,
    summary.last_tenant,
    summary.sole_tenant,
    summary.is_truncated,
    EXISTS (SELECT FROM entitled WHERE entitled.room IS NULL) AS capped
FROM summary
LEFT JOIN claimed ON true
