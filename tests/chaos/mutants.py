"""Guards to take out of the statements of whole processes: chaos must notice."""

from __future__ import annotations

from typing import Final

#: The mutants of tests.protocol that each is made of.
MUTANTS: Final = {
    "unfenced": ("complete without the token", "complete without the worker"),
}


def apply_mutant(name: str) -> None:
    """Let this process execute statements without a guard.

    Raises:
        KeyError: there is no such mutant.
    """
    # Not before the apps are ready: it knows the models.
    from tests.protocol.mutants import MUTANTS as PARTS
    from tests.protocol.pauses import mutated, use_statements

    parts = {part.name: part for part in PARTS}
    changes: dict[str, list[tuple[str, str]]] = {}
    for part in MUTANTS[name]:
        for statement, replacements in parts[part].changes.items():
            changes.setdefault(statement, []).extend(replacements)
    use_statements(lambda statement: mutated(statement, changes.get(statement, [])))
