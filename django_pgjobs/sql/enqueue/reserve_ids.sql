-- reserve_ids: what a COPY into jobs_active needs to know from the server.
--
-- count  int  how many ids to reserve
--
-- Returns `id` for each, in ascending order, with `epoch` and the server's clock in
-- `microseconds` since 1970 on each row: a timestamptz comes as a naive datetime where
-- USE_TZ is false.
-- The DELETE that deletes nothing locks jobs_active as any writer does, before the epoch is
-- read: see list_writers. An INSERT does so by itself; a COPY is told the epoch by its client.
-- Locks   jobs_active in the mode of any writer, until commit.
WITH nobody AS (
    DELETE FROM jobs_active
    WHERE false
    RETURNING jobs_active.id
)
SELECT nextval('jobs_id') AS id,
    jobs_epoch.last_value AS epoch,
    (extract(epoch FROM statement_timestamp()) * 1000000)::bigint AS microseconds
FROM jobs_epoch,
    generate_series(1, %(count)s::integer)
