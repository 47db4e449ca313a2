-- claim_jobs_of_tenant: start an attempt on up to `limit` pending jobs of one tenant in one queue.
--
-- queue      text
-- tenant_id  bigint    the only tenant that had work when claim_jobs looked last
-- worker_id  text
-- limit      int       at least 1
-- lease      interval
-- now        timestamptz  null for the server's clock; only tests pass a value
--
-- What claim_jobs does when it sees one tenant, without the walk and the counts. A
-- tenant with a cap is never served here.
--
-- Returns a row for each claimed job, and one with a null id, in no order. That says `is_alone` (no
-- other tenant has pending jobs in the queue) and `has_held`, as in claim_jobs.
-- Locks   jobs_active rows, SKIP LOCKED, until commit.
-- Index   jobs_active_claim
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
        AND NOT EXISTS (
            SELECT FROM tenant_config
            WHERE tenant_config.tenant_id = %(tenant_id)s::bigint
                AND tenant_config.max_concurrent_jobs IS NOT NULL
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
sources AS MATERIALIZED (
    SELECT begun.epoch,
        begun.claim_order AS first,
        begun.id AS first_id,
        coalesce(
            lead(begun.claim_order) OVER (ORDER BY begun.claim_order, begun.id),
            9223372036854775807
        ) AS last
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
                    AND claim_floors.tenant_id = %(tenant_id)s::bigint
                LIMIT 1
            ) AS floor
        ) AS source
        CROSS JOIN LATERAL (
            SELECT jobs_active.claim_order,
                jobs_active.id
            FROM jobs_active
            WHERE jobs_active.epoch = source.epoch
                AND jobs_active.queue_name = %(queue)s::text
                AND jobs_active.tenant_id = %(tenant_id)s::bigint
                AND jobs_active.status = 'pending'
                AND (jobs_active.claim_order, jobs_active.id) >= (source.claim_order, source.job_id)
            ORDER BY jobs_active.claim_order, jobs_active.id
            LIMIT 1
        ) AS front
    ) AS begun
),
summary AS MATERIALIZED (
    SELECT NOT EXISTS (
        SELECT FROM live
        CROSS JOIN LATERAL (
            (
                SELECT jobs_active.tenant_id
                FROM jobs_active
                WHERE jobs_active.epoch = live.epoch
                    AND jobs_active.queue_name = %(queue)s::text
                    AND jobs_active.status = 'pending'
                    AND jobs_active.tenant_id < %(tenant_id)s::bigint
                ORDER BY jobs_active.tenant_id
                LIMIT 1
            )
            UNION ALL
            (
                SELECT jobs_active.tenant_id
                FROM jobs_active
                WHERE jobs_active.epoch = live.epoch
                    AND jobs_active.queue_name = %(queue)s::text
                    AND jobs_active.status = 'pending'
                    AND jobs_active.tenant_id > %(tenant_id)s::bigint
                ORDER BY jobs_active.tenant_id
                LIMIT 1
            )
        ) AS other
    ) AND NOT EXISTS (
        SELECT FROM kept
        CROSS JOIN LATERAL (
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
                AND claim_floors.tenant_id <> %(tenant_id)s::bigint
            ORDER BY claim_floors.tenant_id
            LIMIT 1
        ) AS other
    ) AND EXISTS (SELECT FROM place) AS is_alone
),
picked AS MATERIALIZED (
    SELECT job.ctid
    FROM sources
    CROSS JOIN LATERAL (
        SELECT jobs_active.ctid
        FROM jobs_active
        WHERE jobs_active.epoch = sources.epoch
            AND jobs_active.queue_name = %(queue)s::text
            AND jobs_active.tenant_id = %(tenant_id)s::bigint
            AND jobs_active.status = 'pending'
            AND (jobs_active.claim_order, jobs_active.id) >= (sources.first, sources.first_id)
            AND jobs_active.claim_order <= sources.last
            AND (
                jobs_active.expires_at IS NULL
                OR jobs_active.expires_at > coalesce(%(now)s::timestamptz, clock_timestamp())
            )
        ORDER BY jobs_active.claim_order, jobs_active.id
        LIMIT (SELECT %(limit)s::integer)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS job
    LIMIT (SELECT %(limit)s::integer)
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
    seen.is_alone,
    seen.has_held
FROM claimed
FULL JOIN (
    SELECT summary.is_alone,
        EXISTS (SELECT FROM holding) AS has_held
    FROM summary
) AS seen ON false
