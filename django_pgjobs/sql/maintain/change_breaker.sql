-- change_breaker: open, half-open or close a breaker that is in one of some states.
--
-- name         text
-- from_states  text[]       closed, open, half_open
-- state        text         the new one
-- reason       text
-- changed_by   text         empty for maintenance
-- pause        interval     an open breaker lets probes through after it; null: never by itself
-- now          timestamptz  null for the server's clock; only tests pass a value
--
-- Returns `name` if its state was one of those, and nothing otherwise.
-- Locks   the breaker's row, waiting, until commit.
UPDATE breakers
SET state = %(state)s::text,
    reason = %(reason)s::text,
    changed_at = coalesce(%(now)s::timestamptz, statement_timestamp()),
    changed_by = %(changed_by)s::text,
    retry_at = CASE WHEN %(state)s::text = 'open'
        THEN coalesce(%(now)s::timestamptz, statement_timestamp()) + %(pause)s::interval
    END
WHERE breakers.name = %(name)s::text
    AND breakers.state = ANY (%(from_states)s::text[])
RETURNING breakers.name
