"""The epochs of the indexes of jobs_active. See docs/explanation/bloat-and-vacuum.md."""

from __future__ import annotations

from dataclasses import dataclass

from .execute import Executor, JobId, fetch_rows, fetch_values


@dataclass(frozen=True, slots=True)
class Epochs:
    """What decides whether to begin a new epoch.

    Attributes:
        epoch: the newest, which new pending rows take.
        epoch_low: the oldest that claims walk.
        running_epoch: the newest of running rows.
        running_epoch_low: the oldest of running rows.
        kept: how many epochs below ``epoch_low`` still hold pending rows.
        floors: the generation of floors that claims read.
        waiting_floor: where the stager begins to look, in microseconds since 1970.
        has_future_floor: the clock has gone back behind ``waiting_floor``.
        claims: a number that grows by one with each claim.
        next_xid: the transaction id that is assigned next.
        oldest_xid: of the xmin horizon; dead rows younger than it cannot be removed.
    """

    epoch: int
    epoch_low: int
    running_epoch: int
    running_epoch_low: int
    kept: int
    floors: int
    waiting_floor: int
    has_future_floor: bool
    claims: int
    next_xid: int
    oldest_xid: int


@dataclass(frozen=True, slots=True)
class Floors:
    """A generation of floors that has been written.

    Attributes:
        generation: of these floors.
        floors: how many.
    """

    generation: int
    floors: int


def read_epochs(connection: Executor) -> Epochs:
    """Return where the epochs and the horizon stand. See sql/maintain/read_epochs.sql."""
    (epochs,) = fetch_rows(connection, "maintain/read_epochs", {}, Epochs)
    return epochs


def move_epoch(connection: Executor) -> int:
    """Begin a new epoch of pending rows and return it. See sql/maintain/move_epoch.sql."""
    (epoch,) = fetch_values(connection, "maintain/move_epoch", {})
    return int(epoch)


def move_running_epoch(connection: Executor) -> int:
    """Begin a new epoch of running rows and return it.

    See sql/maintain/move_running_epoch.sql.
    """
    (epoch,) = fetch_values(connection, "maintain/move_running_epoch", {})
    return int(epoch)


def restamp_pending(connection: Executor, *, limit: int, from_epoch: int = 0) -> list[JobId]:
    """Move rows that claims do not see to the newest epoch.

    See sql/maintain/restamp_pending.sql.
    """
    params = {"limit": limit, "from_epoch": from_epoch}
    return fetch_values(connection, "maintain/restamp_pending", params)


def restamp_running(connection: Executor, *, limit: int, from_epoch: int = 0) -> list[JobId]:
    """Move rows of other epochs to the newest. See sql/maintain/restamp_running.sql."""
    params = {"limit": limit, "from_epoch": from_epoch}
    return fetch_values(connection, "maintain/restamp_running", params)


def list_writers(connection: Executor) -> frozenset[str]:
    """Return who may still write into an old epoch. See sql/maintain/list_writers.sql."""
    return frozenset(fetch_values(connection, "maintain/list_writers", {}))


def list_claims(connection: Executor) -> frozenset[str]:
    """Return who may still claim into an old epoch. See sql/maintain/list_claims.sql."""
    return frozenset(fetch_values(connection, "maintain/list_claims", {}))


def raise_epoch_low(connection: Executor, *, epoch: int) -> bool:
    """Drop the epochs before ``epoch`` if nothing is left there; say whether.

    See sql/maintain/raise_epoch_low.sql.
    """
    return bool(fetch_values(connection, "maintain/raise_epoch_low", {"epoch": epoch}))


def raise_running_epoch_low(connection: Executor, *, epoch: int) -> bool:
    """Drop the epochs of running rows before ``epoch`` if nothing is left there; say whether.

    See sql/maintain/raise_running_epoch_low.sql.
    """
    return bool(fetch_values(connection, "maintain/raise_running_epoch_low", {"epoch": epoch}))


def write_floors(connection: Executor, *, epoch: int) -> Floors:
    """Keep the epochs before ``epoch``. See sql/maintain/write_floors.sql."""
    (floors,) = fetch_rows(connection, "maintain/write_floors", {"epoch": epoch}, Floors)
    return floors


def use_floors(connection: Executor, *, generation: int) -> int:
    """Let claims read a generation of floors; return which they read.

    See sql/maintain/use_floors.sql.
    """
    (generation,) = fetch_values(connection, "maintain/use_floors", {"generation": generation})
    return generation


def forget_floors(connection: Executor, *, from_generation: int = 0) -> list[int]:
    """Delete floors that nobody reads; return the epochs that are kept no more.

    See sql/maintain/forget_floors.sql.
    """
    params = {"from_generation": from_generation}
    return fetch_values(connection, "maintain/forget_floors", params)


def find_waiting_floor(connection: Executor) -> int:
    """Return before which time no job waits. See sql/maintain/find_waiting_floor.sql."""
    (floor,) = fetch_values(connection, "maintain/find_waiting_floor", {})
    return int(floor)


def set_waiting_floor(connection: Executor, *, floor: int) -> int:
    """Let the stager begin to look at ``floor``. See sql/maintain/set_waiting_floor.sql."""
    (floor,) = fetch_values(connection, "maintain/set_waiting_floor", {"floor": floor})
    return floor
