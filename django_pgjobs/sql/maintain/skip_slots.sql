-- skip_slots: record slots that do not fire because a job of their schedule is unfinished.
--
-- schedule_ids  bigint[]       an element for each slot
-- slots         timestamptz[]  the due instants
-- now           timestamptz    null for the server's clock; only tests pass a value
--
-- Returns nothing.
INSERT INTO cron_runs (
    schedule_id,
    slot_at,
    recorded_at,
    kind
)
SELECT skipped.schedule_id,
    skipped.slot_at,
    coalesce(%(now)s::timestamptz, statement_timestamp()),
    'skipped'
FROM unnest(
    %(schedule_ids)s::bigint[],
    %(slots)s::timestamptz[]
) AS skipped (schedule_id, slot_at)
ON CONFLICT (schedule_id, slot_at) DO NOTHING
