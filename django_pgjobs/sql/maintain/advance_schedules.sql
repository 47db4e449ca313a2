-- advance_schedules: move some schedules on, last part of firing.
--
-- Arrays of one length, an element for each schedule:
-- ids             bigint[]
-- handled_until   timestamptz[]  the last slot that was dealt with; null to leave it
-- next_run_at     timestamptz[]  when to look at the schedule again
-- queued_slot_at  timestamptz[]  the slot that waits for a job; null for none
-- job_ids         bigint[]       the last job enqueued; null to leave it
-- problems        text[]         why it cannot be fired; empty in health
-- now             timestamptz    null for the server's clock; only tests pass a value
--
-- The mark of what was dealt with never goes back, whatever the clock does.
--
-- Returns nothing.
UPDATE cron_schedules
SET last_slot_at = greatest(cron_schedules.last_slot_at, moved.handled_until),
    next_run_at = moved.next_run_at,
    queued_slot_at = moved.queued_slot_at,
    last_job_id = coalesce(moved.job_id, cron_schedules.last_job_id),
    last_run_at = CASE
        WHEN moved.job_id IS NULL THEN cron_schedules.last_run_at
        ELSE coalesce(%(now)s::timestamptz, statement_timestamp())
    END,
    problem = moved.problem
FROM unnest(
    %(ids)s::bigint[],
    %(handled_until)s::timestamptz[],
    %(next_run_at)s::timestamptz[],
    %(queued_slot_at)s::timestamptz[],
    %(job_ids)s::bigint[],
    %(problems)s::text[]
) AS moved (id, handled_until, next_run_at, queued_slot_at, job_id, problem)
WHERE cron_schedules.id = moved.id
