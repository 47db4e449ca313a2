"""What a job asks for to spare others: circuit breakers and retry budgets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from ..exceptions import InvalidHandler

#: Outcomes are kept for so long.
LONGEST_PERIOD: Final = timedelta(hours=1)

_MOST: Final = 1_000_000
_LONGEST_NAME: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """A circuit breaker: ``@job(breaker=Breaker(name="sendgrid", failure_ratio=0.8))``.

    Shared by all workers and by all jobs that name it. It opens when many of their attempts have
    failed of late; while it is open none of these jobs is claimed, and no attempt is spent. After
    ``cooldown`` it lets some jobs through as probes: when they succeed it closes, when one fails
    it opens again. Errors that cannot succeed twice do not count: they say nothing about the other
    side.

    Attributes:
        name: of what may be out of order, 1 to 200 characters.
        failure_ratio: failures among all outcomes, above 0 and at most 1, at which it opens.
        minimum: outcomes below which the ratio means nothing.
        period: how far back outcomes count, up to an hour.
        cooldown: how long it stays open before it tries again.
        probes: jobs let through, all of which must succeed.

    Raises:
        InvalidHandler: a value makes no sense.

    See: Michael Nygard, "Release It!", 2007, on circuit breakers.
    """

    name: str
    failure_ratio: float = 0.5
    minimum: int = 10
    period: timedelta = timedelta(minutes=1)
    cooldown: timedelta = timedelta(seconds=30)
    probes: int = 1

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise InvalidHandler(f"Breaker: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBudget:
    """How many of a job's runs may be retries: ``@job(retry_budget=RetryBudget(ratio=0.2))``.

    Beyond it, retries wait longer, and ever longer the more there are: none is lost. So a job that
    mostly fails does not keep workers and the other side busy with failing again.

    Attributes:
        ratio: retries for each success, above 0.
        minimum: retries in a period that are always in the budget.
        period: how far back successes and retries count, up to an hour.

    Raises:
        InvalidHandler: a value makes no sense.
    """

    ratio: float = 0.2
    minimum: int = 10
    period: timedelta = timedelta(minutes=1)

    def __post_init__(self) -> None:
        problems = _period_problems(self.period) + _count_problems("minimum", self.minimum)
        if not _is_number(self.ratio) or not 0 < self.ratio <= _MOST:
            problems.append(f"ratio must be a number above 0, not {self.ratio!r}.")
        for problem in problems:
            raise InvalidHandler(f"RetryBudget: {problem}")

    def spread(self, *, successes: int, retries: int) -> timedelta:
        """Return the longest further delay of a retry; zero within the budget.

        Retries that come twice as often as allowed are spread over a period, three times over
        two periods, and so on, up to an hour.

        Args:
            successes: in the last period.
            retries: in the last period, this one included.
        """
        allowed = max(self.minimum, self.ratio * successes)
        return min(max(retries / allowed - 1, 0.0) * self.period, LONGEST_PERIOD)


def breaker_of(value: Any) -> Any:
    """Return a declared breaker; a name stands for one with the usual values."""
    return Breaker(name=value) if isinstance(value, str) else value


def budget_of(value: Any) -> Any:
    """Return a declared retry budget; a number stands for its ratio."""
    return RetryBudget(ratio=value) if _is_number(value) else value


def guard_problems(breaker: Any, budget: Any) -> list[str]:
    """Return what is wrong with a job's breaker and retry budget."""
    problems = []
    if breaker is not None and not isinstance(breaker, Breaker):
        problems.append(f"breaker must be a name or a Breaker, not {breaker!r}.")
    if budget is not None and not isinstance(budget, RetryBudget):
        problems.append(f"retry_budget must be a number or a RetryBudget, not {budget!r}.")
    return problems


def _problems(breaker: Breaker) -> list[str]:
    problems = _period_problems(breaker.period)
    name = breaker.name
    if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable():
        problems.append(f"name must be text of 1 to {_LONGEST_NAME} characters, not {name!r}.")
    if not _is_number(breaker.failure_ratio) or not 0 < breaker.failure_ratio <= 1:
        problems.append(
            f"failure_ratio must be above 0 and at most 1, not {breaker.failure_ratio!r}."
        )
    cooldown = breaker.cooldown
    if not isinstance(cooldown, timedelta) or not timedelta(0) < cooldown <= timedelta(days=1):
        problems.append(f"cooldown must be above 0 and at most a day, not {cooldown!r}.")
    problems += _count_problems("minimum", breaker.minimum)
    return problems + _count_problems("probes", breaker.probes)


def _period_problems(period: object) -> list[str]:
    if isinstance(period, timedelta) and timedelta(seconds=1) <= period <= LONGEST_PERIOD:
        return []
    return [f"period must be a timedelta of a second to an hour, not {period!r}."]


def _count_problems(name: str, count: object) -> list[str]:
    if type(count) is int and 1 <= count <= _MOST:
        return []
    return [f"{name} must be a whole number from 1, not {count!r}."]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
