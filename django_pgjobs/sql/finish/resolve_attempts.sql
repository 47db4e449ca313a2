-- resolve_attempts: what became of attempts whose outcome could not be written.
--
-- ids           bigint[]
-- fence_tokens  bigint[]  of the same length
-- worker_id     text
--
-- An outcome is refused for one of two reasons: it had been written before and the
-- answer got lost on the way, or the lease was lost and somebody else ended the attempt.
--
-- Returns `id` and `is_recorded` for each: true when this very attempt's own ending is on
-- record, false when it was lost.
-- LIMIT keeps it a lookup for each attempt: EXISTS may become a hash of the whole history.
-- Index   jobs_completed_pkey, job_attempts_pkey, in every partition
SELECT given.id,
    success.id IS NOT NULL OR ending.job_id IS NOT NULL AS is_recorded
FROM unnest(
    %(ids)s::bigint[],
    %(fence_tokens)s::bigint[]
) AS given (id, fence_token)
LEFT JOIN LATERAL (
    SELECT jobs_completed.id
    FROM jobs_completed
    WHERE jobs_completed.id = given.id
        AND jobs_completed.fence_token = given.fence_token
        AND jobs_completed.locked_by = %(worker_id)s::text
        AND jobs_completed.status = 'completed'
    LIMIT 1
) AS success ON true
LEFT JOIN LATERAL (
    SELECT job_attempts.job_id
    FROM job_attempts
    WHERE job_attempts.job_id = given.id
        AND job_attempts.fence_token = given.fence_token
        AND job_attempts.worker_id = %(worker_id)s::text
        AND job_attempts.outcome <> 'lost'
    LIMIT 1
) AS ending ON true
