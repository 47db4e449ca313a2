-- find_unsuccessful_jobs: look through some dead or cancelled jobs for those that a filter wants.
--
-- after_id     bigint       look at ids above this one
-- until_id     bigint       and up to this one
-- limit        int          look at so many rows at most
-- status       text         dead or cancelled
-- job_name     text         null: any
-- queue        text         null: any
-- tenant_id    bigint       null: any
-- fingerprint  text         of the last error; null: any
-- since        timestamptz  finished at or after; null: at any time
-- until        timestamptz  finished before; null: at any time
--
-- A branch for each status, of which one runs: where the plan is for any status, the primary key
-- looks as good as the index, and leads past every job that succeeded.
--
-- Returns one row: `ids` (ascending; of what matches), `last_id` (up to which was looked, or null)
-- and `examined` (how many rows; fewer than limit: that was all).
-- Index   jobs_completed_unsuccessful, in every partition
WITH examined AS MATERIALIZED (
    (
        SELECT jobs_completed.id,
            jobs_completed.job_name,
            jobs_completed.queue_name,
            jobs_completed.tenant_id,
            jobs_completed.fingerprint
        FROM jobs_completed
        WHERE %(status)s::text = 'dead'
            AND jobs_completed.status = 'dead'
            AND jobs_completed.id > %(after_id)s::bigint
            AND jobs_completed.id <= %(until_id)s::bigint
            AND jobs_completed.completed_at >= coalesce(%(since)s::timestamptz, '-infinity')
            AND jobs_completed.completed_at < coalesce(%(until)s::timestamptz, 'infinity')
        ORDER BY jobs_completed.id
        LIMIT %(limit)s::integer
    )
    UNION ALL
    (
        SELECT jobs_completed.id,
            jobs_completed.job_name,
            jobs_completed.queue_name,
            jobs_completed.tenant_id,
            jobs_completed.fingerprint
        FROM jobs_completed
        WHERE %(status)s::text = 'cancelled'
            AND jobs_completed.status = 'cancelled'
            AND jobs_completed.id > %(after_id)s::bigint
            AND jobs_completed.id <= %(until_id)s::bigint
            AND jobs_completed.completed_at >= coalesce(%(since)s::timestamptz, '-infinity')
            AND jobs_completed.completed_at < coalesce(%(until)s::timestamptz, 'infinity')
        ORDER BY jobs_completed.id
        LIMIT %(limit)s::integer
    )
)
SELECT coalesce(
        array_agg(examined.id ORDER BY examined.id) FILTER (
            WHERE examined.job_name = coalesce(%(job_name)s::text, examined.job_name)
                AND examined.queue_name = coalesce(%(queue)s::text, examined.queue_name)
                AND examined.tenant_id = coalesce(%(tenant_id)s::bigint, examined.tenant_id)
                AND (
                    %(fingerprint)s::text IS NULL
                    OR examined.fingerprint = %(fingerprint)s::text
                )
        ),
        '{}'
    ) AS ids,
    max(examined.id) AS last_id,
    count(*)::integer AS examined
FROM examined
