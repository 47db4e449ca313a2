-- read_error_groups: the errors of late, the most frequent first, each kind once.
--
-- within    interval  attempts that ended in this time until now
-- job_name  text      only of jobs of this name; null for all
-- limit     int       groups at most
--
-- A kind of error is its fingerprint. Counting reads the failures of that time; what is read
-- besides is a few rows for each group.
--
-- Returns for each group `fingerprint`, `error_class`, `count` (of attempts), `jobs` (how many
-- different ones), `dead` (jobs dead of it that have not been redriven, counted up to 10,000),
-- `first_seen` (in all of the history), `last_seen`, and of the newest attempt `job_id`,
-- `job_name` and `error_message`.
-- Index   job_attempts_fingerprint, jobs_completed_fingerprint, in every partition
WITH recent AS MATERIALIZED (
    SELECT job_attempts.fingerprint,
        count(*) AS count,
        count(DISTINCT job_attempts.job_id) AS jobs
    FROM job_attempts
    WHERE job_attempts.fingerprint IS NOT NULL
        AND job_attempts.finished_at > statement_timestamp() - %(within)s::interval
        AND job_attempts.job_name = coalesce(%(job_name)s::text, job_attempts.job_name)
    GROUP BY job_attempts.fingerprint
    ORDER BY count(*) DESC,
        job_attempts.fingerprint
    LIMIT %(limit)s::integer
)
SELECT recent.fingerprint,
    newest.error_class,
    recent.count,
    recent.jobs,
    buried.count AS dead,
    oldest.finished_at AS first_seen,
    newest.finished_at AS last_seen,
    newest.job_id,
    newest.job_name,
    newest.error_message
FROM recent
CROSS JOIN LATERAL (
    SELECT job_attempts.finished_at
    FROM job_attempts
    WHERE job_attempts.fingerprint = recent.fingerprint
    ORDER BY job_attempts.finished_at
    LIMIT 1
) AS oldest
CROSS JOIN LATERAL (
    SELECT job_attempts.finished_at,
        job_attempts.job_id,
        job_attempts.job_name,
        job_attempts.error_class,
        job_attempts.error_message
    FROM job_attempts
    WHERE job_attempts.fingerprint = recent.fingerprint
    ORDER BY job_attempts.finished_at DESC
    LIMIT 1
) AS newest
CROSS JOIN LATERAL (
    SELECT count(*) AS count
    FROM (
        SELECT
        FROM jobs_completed
        WHERE jobs_completed.fingerprint = recent.fingerprint
            AND jobs_completed.status = 'dead'
        LIMIT 10000
    ) AS counted
) AS buried
ORDER BY recent.count DESC,
    recent.fingerprint
