"""Who does something, and whether they may."""

from __future__ import annotations

from typing import Any

from ..exceptions import PermissionRequired


def require(actor: Any, permission: str) -> None:
    """Return if ``actor``, a user or None for the project itself, has a permission.

    Raises:
        PermissionRequired: the user lacks it.
    """
    if actor is not None and not actor.has_perm(permission):
        raise PermissionRequired(
            f"{name_of(actor)} needs the permission {permission}.", permission=permission
        )


def name_of(actor: Any) -> str:
    """Return what to call ``actor`` in records."""
    return str(actor.get_username()) if actor is not None else "the system"
