-- fire_slot: enqueue the job of one slot of a schedule, unless the slot has fired before.
--
-- schedule_id      bigint
-- slot_at          timestamptz  the due instant
-- job_name         text
-- queue            text
-- tenant_id        bigint
-- priority         smallint
-- payload          jsonb
-- payload_version  smallint
-- max_attempts     int
-- meta             jsonb
--
-- The slot's row is kept for good, whatever becomes of the job, so a slot fires at most
-- once, however many maintenance processes run and whatever their clocks do.
--
-- Returns the job's `id`, or no row when the slot had fired before.
WITH slot AS (
    INSERT INTO cron_runs (
        schedule_id,
        slot_at,
        job_id
    )
    VALUES (
        %(schedule_id)s::bigint,
        %(slot_at)s::timestamptz,
        nextval('jobs_id')
    )
    ON CONFLICT (schedule_id, slot_at) DO NOTHING
    RETURNING job_id
)
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
SELECT slot.job_id,
    (SELECT jobs_epoch.last_value FROM jobs_epoch),
    %(tenant_id)s::bigint,
    statement_timestamp(),
    %(slot_at)s::timestamptz,
    'pending',
    %(max_attempts)s::integer,
    %(priority)s::smallint,
    coalesce(
        (
            SELECT extract(epoch FROM queue_config.priority_aging) * 1000
            FROM queue_config
            WHERE queue_config.queue_name = %(queue)s::text
        ),
        70368744177664
    )::bigint,
    %(payload_version)s::smallint,
    %(job_name)s::text,
    %(queue)s::text,
    %(payload)s::jsonb,
    %(meta)s::jsonb
FROM slot
RETURNING id
