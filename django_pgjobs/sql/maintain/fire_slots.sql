-- fire_slots: enqueue a job for each of some slots that have not fired before.
--
-- Arrays of one length, an element for each slot, those of a schedule in their order:
-- schedule_ids  bigint[]
-- slots         timestamptz[]  the due instants; null for a run by hand, which is due now
-- jitters       interval[]     by how much later the job may start
-- queues        text[]         where the schedule names none
-- priorities    smallint[]     likewise
-- max_attempts  int[]          likewise
-- metas         jsonb[]
-- now           timestamptz    null for the server's clock; only tests pass a value
--
-- The slot's row guards it: two processes cannot both fire it, whatever their clocks do.
-- The caller has locked the schedules.
--
-- Returns `schedule_id`, `job_id`, `queue_name` and `is_pending` of each slot that fired.
-- Locks   only the new rows.
WITH given AS MATERIALIZED (
    SELECT slots.schedule_id,
        coalesce(
            slots.slot_at,
            %(now)s::timestamptz,
            statement_timestamp()
        ) AS slot_at,
        CASE WHEN slots.slot_at IS NULL THEN 'manual' ELSE 'slot' END AS kind,
        slots.jitter,
        slots.queue_name,
        slots.priority,
        slots.max_attempts,
        slots.meta,
        slots.position
    FROM unnest(
        %(schedule_ids)s::bigint[],
        %(slots)s::timestamptz[],
        %(jitters)s::interval[],
        %(queues)s::text[],
        %(priorities)s::smallint[],
        %(max_attempts)s::integer[],
        %(metas)s::jsonb[]
    ) WITH ORDINALITY AS slots (
        schedule_id,
        slot_at,
        jitter,
        queue_name,
        priority,
        max_attempts,
        meta,
        position
    )
),
recorded AS (
    INSERT INTO cron_runs (
        schedule_id,
        slot_at,
        recorded_at,
        job_id,
        kind
    )
    SELECT ordered.schedule_id,
        ordered.slot_at,
        coalesce(%(now)s::timestamptz, statement_timestamp()),
        nextval('jobs_id'),
        ordered.kind
    FROM (
        SELECT given.schedule_id,
            given.slot_at,
            given.kind
        FROM given
        ORDER BY given.position
    ) AS ordered
    ON CONFLICT (schedule_id, slot_at) DO NOTHING
    RETURNING cron_runs.schedule_id,
        cron_runs.slot_at,
        cron_runs.job_id
),
enqueued AS (
    INSERT INTO jobs_active (
        id,
        epoch,
        tenant_id,
        created_at,
        scheduled_at,
        status,
        max_attempts,
        priority,
        priority_worth,
        payload_version,
        job_name,
        queue_name,
        payload,
        meta
    )
    SELECT recorded.job_id,
        (SELECT jobs_epoch.last_value FROM jobs_epoch),
        cron_schedules.tenant_id,
        statement_timestamp(),
        given.slot_at + given.jitter,
        CASE
            WHEN given.slot_at + given.jitter > coalesce(%(now)s::timestamptz, statement_timestamp())
                THEN 'scheduled'
            ELSE 'pending'
        END::job_status,
        coalesce(cron_schedules.max_attempts, given.max_attempts),
        coalesce(cron_schedules.priority, given.priority),
        coalesce(
            (
                SELECT extract(epoch FROM queue_config.priority_aging) * 1000
                FROM queue_config
                WHERE queue_config.queue_name
                    = coalesce(nullif(cron_schedules.queue_name, ''), given.queue_name)
            ),
            70368744177664
        )::bigint,
        cron_schedules.payload_version,
        cron_schedules.job_name,
        coalesce(nullif(cron_schedules.queue_name, ''), given.queue_name),
        cron_schedules.payload,
        given.meta
    FROM recorded
    JOIN given ON given.schedule_id = recorded.schedule_id
        AND given.slot_at = recorded.slot_at
    JOIN cron_schedules ON cron_schedules.id = recorded.schedule_id
    RETURNING jobs_active.id,
        jobs_active.queue_name,
        jobs_active.status
)
SELECT recorded.schedule_id,
    recorded.job_id,
    enqueued.queue_name,
    enqueued.status = 'pending' AS is_pending
FROM recorded
JOIN enqueued ON enqueued.id = recorded.job_id
ORDER BY recorded.job_id
