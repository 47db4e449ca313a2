-- find_unanswered: attempts of a worker that it knows nothing of.
--
-- worker_id     text
-- fence_tokens  bigint[]  of the attempts that it has in hand
-- limit         int       at least 1
--
-- A claim may commit and its answer get lost. Only the thread that claims may ask: then every
-- attempt that began before is either in hand, or ended, or of such a claim.
--
-- Returns `id` and `fence_token` of each.
-- Index   jobs_active_running
SELECT jobs_active.id,
    jobs_active.fence_token
FROM jobs_active
WHERE jobs_active.status = 'running'
    AND jobs_active.locked_at IS NOT NULL
    AND jobs_active.epoch >= (SELECT jobs_running_epoch_low.last_value FROM jobs_running_epoch_low)
    AND jobs_active.locked_by = %(worker_id)s::text
    AND jobs_active.fence_token <> ALL (%(fence_tokens)s::bigint[])
LIMIT %(limit)s::integer
