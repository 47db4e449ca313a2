-- grant_grace: give every running lease at least one more `grace`.
--
-- grace  interval     usually a whole lease
-- now    timestamptz  null for the server's clock; only tests pass a value
--
-- Run by the reaper before it reaps after a time in which workers could not renew: an
-- outage of the server, a pause of the reaper, a step of the clock. Without it a
-- restart of the server would run everything in flight twice.
--
-- Returns `id` of each lease that was extended.
-- Locks   jobs_active rows, SKIP LOCKED, until commit.
-- Index   jobs_active_running
WITH short AS MATERIALIZED (
    SELECT jobs_active.id,
        jobs_active.fence_token
    FROM jobs_active
    WHERE jobs_active.status = 'running'
        AND jobs_active.epoch >= (SELECT jobs_running_epoch_low.last_value FROM jobs_running_epoch_low)
        AND jobs_active.locked_at IS NOT NULL
        AND jobs_active.lease_expires < coalesce(%(now)s::timestamptz, statement_timestamp()) + %(grace)s::interval
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE jobs_active
SET lease_expires = coalesce(%(now)s::timestamptz, clock_timestamp()) + %(grace)s::interval
FROM short
WHERE jobs_active.id = short.id
    AND jobs_active.fence_token = short.fence_token
    AND jobs_active.status = 'running'
RETURNING jobs_active.id
