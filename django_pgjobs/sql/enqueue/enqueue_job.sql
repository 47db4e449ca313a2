-- enqueue_job: write one job in the caller's transaction.
--
-- job_name         text
-- queue            text
-- tenant_id        bigint       0 for none
-- priority         smallint     higher is claimed earlier among the jobs of one tenant
-- payload          jsonb        the encoded arguments, an object
-- payload_version  smallint
-- max_attempts     int          1 to 10000
-- scheduled_at     timestamptz  null for delay from now
-- delay            interval     null for none; ignored where scheduled_at is given
-- expires_at       timestamptz  null for expires_in
-- expires_in       interval     null for never; counted from the scheduled time
-- idempotency_key  text         null for none
-- group_key        text         null for none
-- meta             jsonb        null for none
--
-- Returns the new id, or no row when an unfinished job of this tenant and name holds
-- the key. Waits for a transaction that is just writing the same key.
-- Locks   only the new row.
INSERT INTO jobs_active (
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
SELECT (SELECT jobs_epoch.last_value FROM jobs_epoch),
    %(tenant_id)s::bigint,
    statement_timestamp(),
    due.scheduled_at,
    coalesce(%(expires_at)s::timestamptz, due.scheduled_at + %(expires_in)s::interval),
    CASE WHEN due.scheduled_at > statement_timestamp() THEN 'scheduled' ELSE 'pending' END::job_status,
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
    %(idempotency_key)s::text,
    %(group_key)s::text,
    %(payload)s::jsonb,
    %(meta)s::jsonb
FROM (
    SELECT coalesce(
        %(scheduled_at)s::timestamptz,
        statement_timestamp() + %(delay)s::interval,
        statement_timestamp()
    ) AS scheduled_at
) AS due
ON CONFLICT (tenant_id, job_name, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
RETURNING id
