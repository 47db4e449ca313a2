-- reserve_ids: what a COPY into jobs_active needs to know from the server.
--
-- count  int  how many ids to reserve
--
-- Returns `id` for each, in ascending order, with `epoch` and the server's `now` on each row.
-- A COPY that commits after its epoch has gone is found by restamp_jobs.
SELECT nextval('jobs_id') AS id,
    jobs_epoch.last_value AS epoch,
    statement_timestamp() AS now
FROM jobs_epoch,
    generate_series(1, %(count)s::integer)
