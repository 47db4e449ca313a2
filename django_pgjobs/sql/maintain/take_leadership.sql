-- take_leadership: become or stay the leader of `name`.
--
-- name       text
-- leader_id  text      unique for each process start
-- term       interval  how long leadership lasts without being taken again
--
-- Returns one row with `leader_id` when the caller leads, none when somebody else does.
-- Locks   the row of maintenance_leader, until commit.
INSERT INTO maintenance_leader AS leader (
    name,
    leader_id,
    expires_at
)
VALUES (
    %(name)s::text,
    %(leader_id)s::text,
    clock_timestamp() + %(term)s::interval
)
ON CONFLICT (name) DO UPDATE
SET leader_id = %(leader_id)s::text,
    expires_at = clock_timestamp() + %(term)s::interval
WHERE leader.leader_id = %(leader_id)s::text
    OR leader.expires_at < clock_timestamp()
RETURNING leader.leader_id
