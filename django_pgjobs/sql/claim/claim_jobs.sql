-- claim_jobs: start an attempt on up to `limit` pending jobs of one queue, fairly between tenants.
--
-- queue           text      one queue; claims of several queues are several statements
-- worker_id       text      unique for each start of a worker process
-- limit           int       at least 1
-- walked          int       at most so many tenants
-- lease           interval  how long the attempt is believed alive without a renewal
-- after_tenant    bigint    the walk begins behind this tenant; any number at first
-- carry           int       jobs that the first tenant, the number after after_tenant, may still
--                           take from the last claim's allowance; 0 for none
-- mean_weight     float8    the average weight of tenants, as seen by earlier claims
-- offset          float8    in [0, 1): where the rounding of the shares starts. A sequence
--                           that fills the interval evenly makes the shares exact
-- default_weight  int       of a tenant without a row in tenant_config
-- evenly          boolean   true: whoever comes first may take all of the claim, whatever the weights
-- now             timestamptz  null for the server's clock; only tests pass a value
--
-- Walks the distinct tenants that have pending jobs, at most `walked` of them, starting behind
-- `after_tenant` and round to it again: one index probe each, however many tenants there are. Each
-- gets the part of the claim that brings its running jobs
-- nearest to its weight's share of all that runs (max-min fairness); fractions are
-- rounded by systematic sampling. Where the walk saw all tenants, the parts add up to
-- `limit`. Where there are more, a tenant of mean weight gets one job, or limit / walked if
-- that is more, each time the walk comes round, the others in proportion to their weights, so
-- that shares are right between tenants that are never seen together (deficit round robin,
-- Shreedhar and Varghese, 1995); what does not fit into `limit` is carried over to the next claim.
-- See docs/explanation/fairness.md.
--
-- The part of a tenant whose jobs have expired, or are locked by somebody, is given to nobody: the
-- next claim starts behind it. Where a claim has found nothing at all, though tenants had work and
-- room, it is made once more `evenly`, so that such a tenant cannot hold up the others.
--
-- A tenant with a cap takes part only when lock_capped_tenants has locked its
-- row earlier in this transaction: this statement's snapshot is younger than that
-- lock, so its count of running jobs cannot miss another claim. It counts from the epoch
-- that was the lowest then: sequences are not read in the snapshot, and a row that
-- has been restamped since is in its old epoch there.
--
-- Jobs of an open breaker are not claimed but become blocked, so that no later claim walks over them
-- again; see maintain/release_held_jobs.
--
-- Rows are written by place, which the planner can do in one way only. Joined with what was
-- picked, it hashes the whole table where it expects many. Asked for pending rows again, it reads
-- the whole claim index where it expects few; that they are free, no index knows.
--
-- Returns a row for each claimed job, and one with a null id, in no order. That says what the walk
-- saw: `tenants` (how many), `last_tenant` (that took part) and `carry` (what it may still take),
-- `reach` (the sum of the parts, up to where the next claim goes on),
-- `mean_weight` (of those with room, or null), `sole_tenant` (the only one with work, or null), `is_truncated` (perhaps more
-- tenants than were walked), `capped` (a capped tenant waits and was not locked) and `has_held`
-- (jobs of open breakers were in the way).
-- Locks   jobs_active rows while picking, SKIP LOCKED, until commit. With the lock
--         after the pick, concurrent claimers choose the same rows and come back empty.
-- Index   jobs_active_claim, jobs_active_running (plans asserted in tests/sql/test_plans.py)
WITH place AS MATERIALIZED (
    SELECT oldest.last_value AS oldest,
        newest.last_value AS newest,
        floors.last_value AS floors,
        running.last_value AS running
    FROM jobs_epoch_low AS oldest,
        jobs_epoch AS newest,
        jobs_floors AS floors,
        jobs_running_epoch AS running
    WHERE NOT EXISTS (
        SELECT FROM queue_config
        WHERE queue_config.queue_name = %(queue)s::text
            AND queue_config.paused
    )
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
    SELECT ordered.tenant_id,
        row_number() OVER () AS step
    FROM (
        SELECT walk.tenant_id
        FROM (
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
        ) AS walk
        GROUP BY walk.tenant_id
        ORDER BY walk.tenant_id <= %(after_tenant)s::bigint,
            walk.tenant_id
        LIMIT %(walked)s::integer
    ) AS ordered
),
summary AS MATERIALIZED (
    SELECT count(*)::integer AS tenants,
        (array_agg(visited.tenant_id ORDER BY visited.step DESC))[1] AS last_tenant,
        CASE WHEN count(*) = 1 THEN min(visited.tenant_id) END AS sole_tenant,
        count(*) >= %(walked)s::integer AS is_truncated
    FROM visited
),
entitled AS MATERIALIZED (
    SELECT visited.tenant_id,
        visited.step,
        coalesce(
            tenant_config.quota_weight * power(2.0::float8, tenant_config.priority_boost),
            %(default_weight)s::integer
        )::float8 AS weight,
        running.count AS running,
        CASE
            WHEN tenant_config.max_concurrent_jobs IS NULL THEN 2147483647
            WHEN visited.tenant_id = ANY (string_to_array(current_setting('pgjobs.locked_tenants', true), ',')::bigint[])
                THEN greatest(0, tenant_config.max_concurrent_jobs - capped.count)
        END AS room
    FROM visited
    LEFT JOIN tenant_config ON tenant_config.tenant_id = visited.tenant_id
    CROSS JOIN LATERAL (
        SELECT count(*) AS count
        FROM jobs_active
        WHERE jobs_active.epoch = ANY (
                ARRAY(
                    SELECT generate_series(jobs_running_epoch_low.last_value, jobs_running_epoch.last_value)
                    FROM jobs_running_epoch_low,
                        jobs_running_epoch
                )
            )
            AND jobs_active.tenant_id = visited.tenant_id
            AND jobs_active.queue_name = %(queue)s::text
            AND jobs_active.status = 'running'
            AND jobs_active.locked_at IS NOT NULL
    ) AS running
    CROSS JOIN LATERAL (
        SELECT count(*) AS count
        FROM jobs_active
        WHERE tenant_config.max_concurrent_jobs IS NOT NULL
            AND jobs_active.epoch = ANY (
                ARRAY(
                    SELECT generate_series(
                        least(
                            jobs_running_epoch_low.last_value,
                            nullif(current_setting('pgjobs.running_epoch_low', true), '')::bigint
                        ),
                        jobs_running_epoch.last_value
                    )
                    FROM jobs_running_epoch_low,
                        jobs_running_epoch
                )
            )
            AND jobs_active.tenant_id = visited.tenant_id
            AND jobs_active.status = 'running'
            AND jobs_active.locked_at IS NOT NULL
    ) AS capped
),
allowance AS MATERIALIZED (
    SELECT sum(entitled.weight) AS weight,
        CASE
            WHEN (SELECT summary.is_truncated FROM summary)
                THEN sum(entitled.weight) / %(mean_weight)s::float8
                    * greatest(1, %(limit)s::integer / %(walked)s::integer::float8)
            ELSE %(limit)s::integer
        END AS jobs
    FROM entitled
    WHERE entitled.room > 0
),
needs AS (
    SELECT entitled.tenant_id,
        entitled.step,
        entitled.room,
        allowance.jobs AS allowance,
        least(
            entitled.room,
            greatest(
                0,
                (sum(entitled.running) OVER () + allowance.jobs) * entitled.weight / allowance.weight
                    - entitled.running
            )
        ) AS need
    FROM entitled
    CROSS JOIN allowance
    WHERE entitled.room > 0
),
shares AS (
    SELECT needs.tenant_id,
        needs.step,
        needs.room,
        needs.need * needs.allowance / nullif(sum(needs.need) OVER (), 0) AS share,
        sum(needs.need) OVER (ORDER BY needs.step)
            * needs.allowance / nullif(sum(needs.need) OVER (), 0) AS upto
    FROM needs
),
rounded AS (
    SELECT shares.tenant_id,
        shares.step,
        shares.share,
        shares.upto AS reach,
        least(
            shares.room,
            CASE
                WHEN %(evenly)s::boolean THEN %(limit)s::integer
                WHEN %(carry)s::integer > 0
                    AND shares.tenant_id = CASE
                        WHEN %(after_tenant)s::bigint = 9223372036854775807 THEN '-9223372036854775808'::bigint
                        ELSE %(after_tenant)s::bigint + 1
                    END
                    THEN %(carry)s::integer
                ELSE floor(shares.upto + %(offset)s::float8) - floor(shares.upto - shares.share + %(offset)s::float8)
            END
        )::integer AS quota
    FROM shares
),
quotas AS MATERIALIZED (
    SELECT rounded.tenant_id,
        rounded.step,
        rounded.share,
        rounded.reach,
        rounded.quota,
        CASE
            WHEN %(evenly)s::boolean THEN rounded.quota
            ELSE sum(rounded.quota) OVER (ORDER BY rounded.step)
        END AS upto
    FROM rounded
    ORDER BY rounded.step
),
cut AS MATERIALIZED (
    SELECT quotas.tenant_id AS last_tenant,
        least(quotas.upto - %(limit)s::integer, 2147483647)::integer AS carry,
        CASE WHEN quotas.upto > %(limit)s::integer THEN quotas.reach - quotas.share ELSE quotas.reach END AS reach
    FROM quotas
    WHERE (SELECT summary.is_truncated FROM summary)
        AND NOT %(evenly)s::boolean
        AND quotas.upto >= %(limit)s::integer
    ORDER BY quotas.step
    LIMIT 1
),
picked AS MATERIALIZED (
    SELECT job.ctid,
        quotas.tenant_id,
        quotas.step
    FROM quotas
    CROSS JOIN LATERAL (
        SELECT urgent.ctid
        FROM (
            SELECT live.epoch,
                '-9223372036854775808'::bigint AS first,
                0::bigint AS first_id,
                9223372036854775807 AS last
            FROM live
            WHERE NOT EXISTS (SELECT FROM kept)
            UNION ALL
            SELECT begun.epoch,
                begun.claim_order,
                begun.id,
                CASE
                    WHEN %(evenly)s::boolean THEN 9223372036854775807
                    ELSE lead(begun.claim_order, 1, 9223372036854775807) OVER (ORDER BY begun.claim_order, begun.id)
                END
            FROM (
                SELECT source.epoch,
                    front.claim_order,
                    front.id
                FROM (
                    SELECT live.epoch,
                        '-9223372036854775808'::bigint AS claim_order,
                        0::bigint AS job_id
                    FROM live
                    UNION ALL
                    SELECT kept.epoch,
                        floor.claim_order,
                        floor.job_id
                    FROM kept
                    CROSS JOIN LATERAL (
                        SELECT claim_floors.claim_order,
                            claim_floors.job_id
                        FROM claim_floors
                        WHERE claim_floors.generation = kept.floors
                            AND claim_floors.epoch = kept.epoch
                            AND claim_floors.queue_name = %(queue)s::text
                            AND claim_floors.tenant_id = quotas.tenant_id
                        LIMIT 1
                    ) AS floor
                ) AS source
                CROSS JOIN LATERAL (
                    SELECT jobs_active.claim_order,
                        jobs_active.id
                    FROM jobs_active
                    WHERE jobs_active.epoch = source.epoch
                        AND jobs_active.queue_name = %(queue)s::text
                        AND jobs_active.tenant_id = quotas.tenant_id
                        AND jobs_active.status = 'pending'
                        AND (jobs_active.claim_order, jobs_active.id) >= (source.claim_order, source.job_id)
                    ORDER BY jobs_active.claim_order, jobs_active.id
                    LIMIT 1
                ) AS front
                WHERE EXISTS (SELECT FROM kept)
            ) AS begun
        ) AS source
        CROSS JOIN LATERAL (
            SELECT jobs_active.ctid
            FROM jobs_active
            WHERE jobs_active.epoch = source.epoch
                AND jobs_active.queue_name = %(queue)s::text
                AND jobs_active.tenant_id = quotas.tenant_id
                AND jobs_active.status = 'pending'
                AND (jobs_active.claim_order, jobs_active.id) >= (source.first, source.first_id)
                AND jobs_active.claim_order <= source.last
                AND (
                    jobs_active.expires_at IS NULL
                    OR jobs_active.expires_at > coalesce(%(now)s::timestamptz, clock_timestamp())
                )
            ORDER BY jobs_active.claim_order, jobs_active.id
            LIMIT quotas.quota
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS urgent
        LIMIT least(quotas.quota, %(limit)s::integer - quotas.upto + quotas.quota)
    ) AS job
    WHERE quotas.quota > 0
        AND quotas.upto - quotas.quota < %(limit)s::integer
    LIMIT %(limit)s::integer
),
held AS MATERIALIZED (
    SELECT coalesce(array_agg(named.job_name), '{}') AS job_names
    FROM breakers
    CROSS JOIN LATERAL unnest(breakers.job_names) AS named (job_name)
    WHERE breakers.state <> 'closed'
),
clock AS MATERIALIZED (
    SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now
),
holding AS (
    UPDATE jobs_active
    SET status = 'blocked',
        held_by = (
            SELECT min(breakers.name)
            FROM breakers
            WHERE breakers.state <> 'closed'
                AND jobs_active.job_name = ANY (breakers.job_names)
        )
    WHERE jobs_active.ctid = ANY (
            ARRAY(
                SELECT picked.ctid
                FROM picked
                WHERE (SELECT cardinality(held.job_names) > 0 FROM held)
            )
        )
        AND jobs_active.locked_at IS NULL
        AND NOT jobs_active.is_probe
        AND jobs_active.job_name = ANY ((SELECT held.job_names FROM held)::text[])
    RETURNING jobs_active.id
),
claimed AS (
    UPDATE jobs_active
    SET status = 'running',
        epoch = (SELECT place.running FROM place),
        attempt = jobs_active.attempt + 1,
        claims = jobs_active.claims + 1,
        locked_by = %(worker_id)s::text,
        locked_at = (SELECT clock.now FROM clock),
        started_at = coalesce(jobs_active.started_at, (SELECT clock.now FROM clock)),
        lease_expires = (SELECT clock.now FROM clock) + %(lease)s::interval,
        fence_token = nextval('jobs_fence') << 16 | floor(random() * 65536)::bigint
    WHERE jobs_active.ctid = ANY (ARRAY(SELECT picked.ctid FROM picked))
        AND jobs_active.locked_at IS NULL
        AND (
            jobs_active.is_probe
            OR NOT jobs_active.job_name = ANY ((SELECT held.job_names FROM held)::text[])
        )
    RETURNING jobs_active.id,
        jobs_active.job_name,
        jobs_active.tenant_id,
        jobs_active.queue_name,
        jobs_active.priority,
        jobs_active.claim_order,
        jobs_active.fence_token,
        jobs_active.attempt,
        jobs_active.max_attempts,
        jobs_active.claims,
        jobs_active.payload::text AS payload,
        jobs_active.payload_version,
        jobs_active.meta::text AS meta,
        jobs_active.losses
)
SELECT claimed.id,
    claimed.job_name,
    claimed.tenant_id,
    claimed.queue_name,
    claimed.priority,
    claimed.claim_order,
    claimed.fence_token,
    claimed.attempt,
    claimed.max_attempts,
    claimed.claims,
    claimed.payload,
    claimed.payload_version,
    claimed.meta,
    claimed.losses,
    seen.tenants,
    seen.last_tenant,
    seen.carry,
    seen.reach,
    seen.mean_weight,
    seen.sole_tenant,
    seen.is_truncated,
    seen.capped,
    seen.has_held
FROM claimed
FULL JOIN (
    SELECT summary.tenants,
        coalesce(
            (SELECT cut.last_tenant FROM cut),
            (
                SELECT picked.tenant_id
                FROM picked
                WHERE %(evenly)s::boolean
                ORDER BY picked.step DESC
                LIMIT 1
            ),
            summary.last_tenant,
            %(after_tenant)s::bigint
        ) AS last_tenant,
        coalesce((SELECT cut.carry FROM cut), 0) AS carry,
        coalesce((SELECT cut.reach FROM cut), (SELECT max(quotas.reach) FROM quotas), 0) AS reach,
        (SELECT avg(entitled.weight) FROM entitled WHERE entitled.room > 0) AS mean_weight,
        summary.sole_tenant,
        summary.is_truncated,
        EXISTS (SELECT FROM entitled WHERE entitled.room IS NULL) AS capped,
        EXISTS (SELECT FROM holding) AS has_held
    FROM summary
) AS seen ON false
