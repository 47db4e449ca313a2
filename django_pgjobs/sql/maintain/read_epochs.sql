-- read_epochs: what decides whether the indexes of jobs_active should move to a new epoch.
--
-- A snapshot ends at the newest transaction that has ended, and others may have begun since; ages
-- count from the id that is assigned next.
--
-- Returns one row: `epoch` and `epoch_low` of pending rows, `running_epoch` and
-- `running_epoch_low`, `kept` (how many epochs are), `floors` (the generation that counts),
-- `waiting_floor` (in microseconds) and `has_future_floor` (the clock has gone back behind it),
-- `claims` (a number that grows by one with each claim), `next_xid` and `oldest_xid` (of the xmin
-- horizon that keeps vacuum from removing dead rows: backends, prepared transactions, replication
-- slots and standbys).
SELECT jobs_epoch.last_value AS epoch,
    jobs_epoch_low.last_value AS epoch_low,
    jobs_running_epoch.last_value AS running_epoch,
    jobs_running_epoch_low.last_value AS running_epoch_low,
    (SELECT count(*)::integer FROM kept_epochs) AS kept,
    jobs_floors.last_value AS floors,
    jobs_waiting_floor.last_value AS waiting_floor,
    jobs_waiting_floor.last_value > extract(epoch FROM statement_timestamp()) * 1000000 AS has_future_floor,
    jobs_fence.last_value AS claims,
    counter.next_xid,
    counter.next_xid - (
        SELECT coalesce(max(horizon.age), 0)
        FROM (
            SELECT greatest(age(pg_stat_activity.backend_xmin), age(pg_stat_activity.backend_xid)) AS age
            FROM pg_stat_activity
            WHERE (pg_stat_activity.backend_xmin IS NOT NULL OR pg_stat_activity.backend_xid IS NOT NULL)
                AND pg_stat_activity.pid <> pg_backend_pid()
                AND pg_stat_activity.datname IS NOT DISTINCT FROM current_database()
            UNION ALL
            SELECT age(pg_prepared_xacts.transaction)
            FROM pg_prepared_xacts
            UNION ALL
            SELECT age(pg_replication_slots.xmin)
            FROM pg_replication_slots
            WHERE pg_replication_slots.xmin IS NOT NULL
            UNION ALL
            SELECT age(pg_stat_replication.backend_xmin)
            FROM pg_stat_replication
            WHERE pg_stat_replication.backend_xmin IS NOT NULL
        ) AS horizon
    ) AS oldest_xid
FROM jobs_epoch,
    jobs_epoch_low,
    jobs_running_epoch,
    jobs_running_epoch_low,
    jobs_floors,
    jobs_waiting_floor,
    jobs_fence,
    (
        SELECT snapshot.xmax::text::bigint + age(snapshot.xmax::xid) AS next_xid
        FROM (SELECT pg_snapshot_xmax(pg_current_snapshot()) AS xmax) AS snapshot
    ) AS counter
