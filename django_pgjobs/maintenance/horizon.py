"""Whether something holds back vacuum, and for how many claims."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..store.epochs import Epochs


@dataclass(slots=True)
class Age:
    """Counts claims since something began whose dead rows vacuum cannot remove."""

    _begun: Epochs | None = field(default=None, init=False)

    def claims(self, now: Epochs) -> int:
        """Return how many claims; begin anew where vacuum can remove what they left."""
        if self._begun is None or not is_pinned(self._begun, now):
            self.restart(now)
            return 0
        return now.claims - self._begun.claims

    def is_pinned(self, now: Epochs) -> bool:
        """Say whether what held back vacuum when counting began still does."""
        return self._begun is not None and is_pinned(self._begun, now)

    def restart(self, now: Epochs) -> None:
        """Count from ``now`` on."""
        self._begun = now


def is_pinned(begun: Epochs, now: Epochs) -> bool:
    """Say whether something older than ``begun`` still holds back vacuum.

    Args:
        begun: how things stood when counting began.
        now: how they stand.
    """
    return now.oldest_xid <= begun.next_xid and now.claims >= begun.claims
