-- find_unfinished_jobs: look through some unfinished jobs for those that a filter wants.
--
-- after_id    bigint       look at ids above this one
-- until_id    bigint       and up to this one
-- limit       int          look at so many rows at most
-- job_name    text         null: any
-- queue       text         null: any
-- tenant_id   bigint       null: any
-- status      text         null: any
-- since       timestamptz  enqueued at or after; null: at any time
-- until       timestamptz  enqueued before; null: at any time
--
-- No index of this table serves such questions, because each would cost every enqueue. So the
-- walk is along the primary key, some rows at a time.
--
-- Returns one row: `ids` (ascending; of what matches), `last_id` (up to which was looked, or null)
-- and `examined` (how many rows; fewer than limit: that was all).
-- Index   jobs_active_pkey
WITH examined AS MATERIALIZED (
    SELECT jobs_active.id,
        jobs_active.job_name,
        jobs_active.queue_name,
        jobs_active.tenant_id,
        jobs_active.status,
        jobs_active.created_at
    FROM jobs_active
    WHERE jobs_active.id > %(after_id)s::bigint
        AND jobs_active.id <= %(until_id)s::bigint
    ORDER BY jobs_active.id
    LIMIT %(limit)s::integer
)
SELECT coalesce(
        array_agg(examined.id ORDER BY examined.id) FILTER (
            WHERE examined.job_name = coalesce(%(job_name)s::text, examined.job_name)
                AND examined.queue_name = coalesce(%(queue)s::text, examined.queue_name)
                AND examined.tenant_id = coalesce(%(tenant_id)s::bigint, examined.tenant_id)
                AND examined.status::text = coalesce(%(status)s::text, examined.status::text)
                AND examined.created_at >= coalesce(%(since)s::timestamptz, '-infinity')
                AND examined.created_at < coalesce(%(until)s::timestamptz, 'infinity')
        ),
        '{}'
    ) AS ids,
    max(examined.id) AS last_id,
    count(*)::integer AS examined
FROM examined
