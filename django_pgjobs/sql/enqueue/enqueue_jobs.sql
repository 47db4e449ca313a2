-- enqueue_jobs: write many jobs in the caller's transaction, in one statement.
--
-- ids               bigint[]  from reserve_ids; null, or a null element, for new ones
--
-- Arrays of one length, an element for each job, as in enqueue_job:
-- job_names         text[]
-- queues            text[]
-- tenant_ids        bigint[]
-- priorities        smallint[]
-- payloads          jsonb[]
-- payload_versions  smallint[]
-- max_attempts      int[]
-- scheduled_at      timestamptz[]
-- delays            interval[]
-- expires_at        timestamptz[]
-- expires_in        interval[]
-- idempotency_keys  text[]
-- group_keys        text[]
-- metas             jsonb[]
--
-- Returns `position` (from 1) and `id` of each job written. A position is missing when an
-- unfinished job, or an earlier one of the same call, holds its key.
-- Ids ascend with the position: of jobs with one due time, the first is claimed first.
-- Rows are written in the order of their keys, so that two calls with common keys
-- wait for each other instead of deadlocking: an order that callers have too, who need several
-- statements.
-- Locks   only the new rows.
WITH given AS MATERIALIZED (
    SELECT coalesce(ordered.id, nextval('jobs_id')) AS id,
        ordered.job_name,
        ordered.queue_name,
        ordered.tenant_id,
        ordered.priority,
        ordered.payload,
        ordered.payload_version,
        ordered.max_attempts,
        coalesce(
            ordered.scheduled_at,
            statement_timestamp() + ordered.delay,
            statement_timestamp()
        ) AS scheduled_at,
        ordered.expires_at,
        ordered.expires_in,
        ordered.idempotency_key,
        ordered.group_key,
        ordered.meta,
        ordered.position
    FROM (
        SELECT jobs.id,
            jobs.job_name,
            jobs.queue_name,
            jobs.tenant_id,
            jobs.priority,
            jobs.payload,
            jobs.payload_version,
            jobs.max_attempts,
            jobs.scheduled_at,
            jobs.delay,
            jobs.expires_at,
            jobs.expires_in,
            jobs.idempotency_key,
            jobs.group_key,
            jobs.meta,
            jobs.position
        FROM unnest(
            %(ids)s::bigint[],
            %(job_names)s::text[],
            %(queues)s::text[],
            %(tenant_ids)s::bigint[],
            %(priorities)s::smallint[],
            %(payloads)s::jsonb[],
            %(payload_versions)s::smallint[],
            %(max_attempts)s::integer[],
            %(scheduled_at)s::timestamptz[],
            %(delays)s::interval[],
            %(expires_at)s::timestamptz[],
            %(expires_in)s::interval[],
            %(idempotency_keys)s::text[],
            %(group_keys)s::text[],
            %(metas)s::jsonb[]
        ) WITH ORDINALITY AS jobs (
            id,
            job_name,
            queue_name,
            tenant_id,
            priority,
            payload,
            payload_version,
            max_attempts,
            scheduled_at,
            delay,
            expires_at,
            expires_in,
            idempotency_key,
            group_key,
            meta,
            position
        )
        ORDER BY jobs.position
    ) AS ordered
),
written AS (
    INSERT INTO jobs_active (
        id,
        epoch,
        tenant_id,
        created_at,
        scheduled_at,
        expires_at,
        status,
        max_attempts,
        priority,
        priority_worth,
        payload_version,
        job_name,
        queue_name,
        idempotency_key,
        group_key,
        payload,
        meta
    )
    SELECT given.id,
        (SELECT jobs_epoch.last_value FROM jobs_epoch),
        given.tenant_id,
        statement_timestamp(),
        given.scheduled_at,
        coalesce(given.expires_at, given.scheduled_at + given.expires_in),
        CASE WHEN given.scheduled_at > statement_timestamp() THEN 'scheduled' ELSE 'pending' END::job_status,
        given.max_attempts,
        given.priority,
        coalesce(
            (
                SELECT extract(epoch FROM queue_config.priority_aging) * 1000
                FROM queue_config
                WHERE queue_config.queue_name = given.queue_name
            ),
            70368744177664
        )::bigint,
        given.payload_version,
        given.job_name,
        given.queue_name,
        given.idempotency_key,
        given.group_key,
        given.payload,
        given.meta
    FROM given
    ORDER BY given.tenant_id,
        given.job_name COLLATE "C",
        given.idempotency_key COLLATE "C",
        given.position
    ON CONFLICT (tenant_id, job_name, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING id
)
SELECT given.position,
    written.id
FROM written
JOIN given ON given.id = written.id
