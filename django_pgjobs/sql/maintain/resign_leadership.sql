-- resign_leadership: let somebody else lead at once.
--
-- name       text
-- leader_id  text
--
-- Returns nothing.
DELETE FROM maintenance_leader
WHERE maintenance_leader.name = %(name)s::text
    AND maintenance_leader.leader_id = %(leader_id)s::text
