"""Statements that wait in their middle, made from the shipped ones.

A gate is an uncorrelated sub-select in a WHERE: the server evaluates it once, before it
reads what it guards. ``after`` makes it read a part of the statement first. Outside of the
explorer the gates are open.
"""

from __future__ import annotations

from collections.abc import Callable

from django_pgjobs.sql import statement

#: A shared lock on (operation, number of the pause), which the explorer holds until it lets
#: the operation go on.
FUNCTION = """
CREATE SCHEMA IF NOT EXISTS protocol;
CREATE OR REPLACE FUNCTION protocol.pause(name text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    operation integer := nullif(current_setting('protocol.operation', true), '')::integer;
    number integer;
BEGIN
    IF operation IS NOT NULL THEN
        number := current_setting('protocol.number')::integer + 1;
        PERFORM set_config('protocol.number', number::text, false);
        PERFORM pg_advisory_lock_shared(operation, number);
        PERFORM pg_advisory_unlock_shared(operation, number);
    END IF;
    RETURN true;
END
$$;
"""


def gate(name: str, after: str | None = None) -> str:
    """Return a condition that waits; after all rows of a part were found, if one is given."""
    source = f" FROM (SELECT count(*) FROM {after}) AS counted" if after else ""
    return f"(SELECT protocol.pause('{name}'){source})"


def before(anchor: str, name: str, after: str | None = None) -> tuple[str, str]:
    """Return the replacement that puts a gate in front of the condition ``anchor``."""
    word, _, condition = anchor.partition(" ")
    return anchor, f"{word} {gate(name, after)} AND {condition}"


def lateral(name: str, after: str | None = None) -> tuple[str, str]:
    """Return the replacement that puts a gate in front of the rows locked in ``job``."""
    return "    ) AS job\n)", f"    ) AS job\n    WHERE {gate(name, after)}\n)"


PAUSES: dict[str, list[tuple[str, str]]] = {
    "claim/claim_jobs": [
        before("WHERE NOT EXISTS (\n        SELECT FROM queue_config", "start"),
        before("WHERE quotas.quota > 0", "counted", after="quotas"),
        before("WHERE jobs_active.ctid = ANY (ARRAY(SELECT picked.", "picked", after="picked"),
    ],
    "claim/claim_jobs_of_tenant": [
        before("WHERE NOT EXISTS (\n        SELECT FROM queue_config", "start"),
        before("WHERE jobs_active.ctid = ANY (ARRAY(SELECT picked.", "picked", after="picked"),
    ],
    "claim/stage_jobs": [
        before("WHERE jobs_active.ctid = ANY", "due", after="due"),
    ],
    "finish/complete_jobs": [before("WHERE jobs_active.id = given.id", "start")],
    "finish/end_attempts": [
        lateral("start"),
        before("AND owned.status IN ('failed', 'retryable')", "owned", after="owned"),
    ],
    "finish/renew_leases": [
        before("WHERE given.extends", "start"),
        before("WHERE jobs_active.id = held.id", "held", after="held"),
    ],
    "maintain/reap_leases": [
        before("WHERE jobs_active.status = 'running'\n        AND jobs_active.epoch", "start"),
        before("AND expired.status = 'failed'", "expired", after="expired"),
    ],
    "maintain/expire_jobs": [
        before("WHERE jobs_active.expires_at <=", "start"),
        before("WHERE jobs_active.id = ANY", "expired", after="expired"),
    ],
    "maintain/lock_due_schedules": [
        before("WHERE cron_schedules.enabled", "start"),
    ],
    "maintain/list_unfinished_jobs": [
        before("WHERE jobs_active.id = ANY", "start"),
    ],
    "maintain/advance_schedules": [
        before("WHERE cron_schedules.id = moved.id", "start"),
    ],
    "maintain/restamp_pending": [
        lateral("stray", after="stray"),
        before("WHERE jobs_active.id = held.id", "held", after="held"),
    ],
    "maintain/restamp_running": [
        lateral("stray", after="stray"),
        before("WHERE jobs_active.id = held.id", "held", after="held"),
    ],
    "maintain/raise_epoch_low": [
        before("WHERE NOT EXISTS (\n    SELECT FROM unnest(", "start"),
        (" greatest(", " CASE WHEN protocol.pause('checked') THEN 0 END + greatest("),
    ],
    "maintain/raise_running_epoch_low": [
        before("WHERE NOT EXISTS (\n    SELECT FROM (", "start"),
        (" greatest(", " CASE WHEN protocol.pause('checked') THEN 0 END + greatest("),
    ],
    "maintain/write_floors": [
        before("WHERE jobs_active.epoch = claim_floors.epoch", "start"),
        (
            "FROM place\n        CROSS JOIN begun\n",
            f"FROM place\n        CROSS JOIN begun\n        WHERE {gate('begun', 'begun')}\n",
        ),
    ],
    "administer/cancel_jobs": [
        lateral("start"),
        before("AND jobs_active.status = 'running'", "found", after="found"),
    ],
    "administer/redrive_jobs": [
        lateral("start"),
        (
            "    FROM found\n    ON CONFLICT",
            f"    FROM found\n    WHERE {gate('found', 'found')}\n    ON CONFLICT",
        ),
    ],
}


def replaced(text: str, changes: list[tuple[str, str]]) -> str:
    """Return ``text`` with each change made.

    Raises:
        LookupError: a piece is not there exactly once; the statement has changed.
    """
    for old, new in changes:
        if text.count(old) != 1:
            raise LookupError(f"{text.count(old)} times, not once, in the statement: {old!r}")
        text = text.replace(old, new)
    return text


def mutated(name: str, changes: list[tuple[str, str]]) -> str:
    """Return the statement ``name`` with every occurrence of each piece changed.

    Raises:
        LookupError: a piece is not there; the statement has changed.
    """
    text = statement(name)
    for old, new in changes:
        if old not in text:
            raise LookupError(f"Not in {name}: {old!r}")
        text = text.replace(old, new)
    return text


def paused(name: str, changes: list[tuple[str, str]]) -> str:
    """Return the statement ``name`` changed, with its pauses."""
    return replaced(mutated(name, changes), PAUSES.get(name, []))


def use_statements(loader: Callable[[str], str]) -> Callable[[str], str]:
    """Let the store execute what ``loader`` returns for a name; return what it used before."""
    from django_pgjobs.store import claim, execute

    before = execute.statement
    execute.statement = claim.statement = loader
    return before
