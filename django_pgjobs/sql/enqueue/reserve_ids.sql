-- reserve_ids: what a COPY into jobs_active needs to know from the server.
--
-- count  int  how many ids to reserve
--
-- Returns `id` for each, in ascending order, with `epoch` and the server's clock in
-- `microseconds` since 1970 on each row: a timestamptz comes as a naive datetime where
-- USE_TZ is false.
-- A COPY that commits after its epoch has gone is found by restamp_jobs.
SELECT nextval('jobs_id') AS id,
    jobs_epoch.last_value AS epoch,
    (extract(epoch FROM statement_timestamp()) * 1000000)::bigint AS microseconds
FROM jobs_epoch,
    generate_series(1, %(count)s::integer)
