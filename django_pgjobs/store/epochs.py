"""The epochs of the claim index. See docs/explanation/bloat-and-vacuum.md."""

from __future__ import annotations

from dataclasses import dataclass

from .execute import Executor, JobId, fetch_rows, fetch_values


@dataclass(frozen=True, slots=True)
class Epochs:
    """What decides whether to begin a new epoch.

    Attributes:
        epoch: the newest, which new pending rows take.
        epoch_low: the oldest that claims look at.
        claims: a number that grows by one with each claim.
        next_xid: the transaction id that is assigned next.
        oldest_xid: of the xmin horizon; dead rows younger than it cannot be removed.
    """

    epoch: int
    epoch_low: int
    claims: int
    next_xid: int
    oldest_xid: int


def read_epochs(connection: Executor) -> Epochs:
    """Return where the epochs and the horizon stand. See sql/maintain/read_epochs.sql."""
    (epochs,) = fetch_rows(connection, "maintain/read_epochs", {}, Epochs)
    return epochs


def move_epoch(connection: Executor) -> int:
    """Begin a new epoch and return it. See sql/maintain/move_epoch.sql."""
    (epoch,) = fetch_values(connection, "maintain/move_epoch", {})
    return int(epoch)


def restamp_jobs(connection: Executor, *, limit: int, from_epoch: int = 0) -> list[JobId]:
    """Move rows of other epochs to the newest. See sql/maintain/restamp_jobs.sql."""
    params = {"limit": limit, "from_epoch": from_epoch}
    return fetch_values(connection, "maintain/restamp_jobs", params)


def list_writers(connection: Executor) -> frozenset[str]:
    """Return who may still write into an old epoch. See sql/maintain/list_writers.sql."""
    return frozenset(fetch_values(connection, "maintain/list_writers", {}))


def raise_epoch_low(connection: Executor, *, epoch: int) -> bool:
    """Drop the epochs before ``epoch`` if nothing is left there; say whether.

    See sql/maintain/raise_epoch_low.sql.
    """
    return bool(fetch_values(connection, "maintain/raise_epoch_low", {"epoch": epoch}))
