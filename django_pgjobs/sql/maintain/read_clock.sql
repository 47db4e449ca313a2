-- read_clock: the server's clock, and how long the server has been up.
--
-- Returns one row: `now` and `uptime`.
SELECT clock_timestamp() AS now,
    clock_timestamp() - pg_postmaster_start_time() AS uptime
