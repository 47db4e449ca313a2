"""Lists of tables too large to count or to sort.

A page begins where the one before it ended (``?before=…``), so that the hundredth page costs as
much as the first, and new rows at the top do not shift the pages.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.db import models
from django.db.models import Q
from django.http import HttpRequest

from .base import BIGINT

BEFORE_VAR: Final = "before"

_POSITION: Final = re.compile(r"\d{1,19}(\.\d{1,19})?", re.ASCII)


class EndlessChangeList(ChangeList):
    """A list without numbers of pages: one more row than fits tells that there are older ones.

    Attributes:
        is_first: this is the newest page.
        newest: query string of the first page.
        older: query string of the next page, or None.
        is_cut: there may be more rows that match, but looking for them all would cost too much.
    """

    #: The only order, which an index serves.
    order: ClassVar[tuple[str, ...]] = ("-id",)

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Return the rows that match. A filter or a search begins at the newest page again."""
        self.params.pop(BEFORE_VAR, None)
        self.filter_params.pop(BEFORE_VAR, None)
        return super().get_queryset(request, *args, **kwargs)

    def get_ordering(self, request: HttpRequest, queryset: Any) -> list[Any]:
        # Django sorts by any column of the list that ?o= names, sortable or not.
        return list(self.order)

    def get_results(self, request: HttpRequest) -> None:
        """Read one page."""
        position = _position(request.GET.get(BEFORE_VAR), parts=len(self.order))
        queryset, floor = self.narrow(self.queryset, position)
        rows = list(queryset[: self.list_per_page + 1])
        self.result_list = rows[: self.list_per_page]
        self.is_first = not position
        self.newest = self.get_query_string()
        self.is_cut = len(rows) <= self.list_per_page and bool(floor)
        last = (
            self.place(rows[self.list_per_page - 1]) if len(rows) > self.list_per_page else floor
        )
        self.older = (
            self.get_query_string({BEFORE_VAR: ".".join(map(str, last))}) if last else None
        )
        self._tell_the_templates()

    def narrow(
        self, queryset: models.QuerySet[Any], position: list[int]
    ) -> tuple[models.QuerySet[Any], list[int]]:
        """Return the rows after ``position``, and where to stop looking, both [] for the end."""
        raise NotImplementedError

    def place(self, row: Any) -> list[int]:
        """Return the position of a row."""
        raise NotImplementedError

    def _tell_the_templates(self) -> None:
        # Equal counts keep Django's templates from showing a total, or "select all".
        self.result_count = self.full_result_count = len(self.result_list)
        self.show_full_result_count = False
        self.show_admin_actions = True
        self.can_show_all = self.multi_page = False


class JobChangeList(EndlessChangeList):
    """Jobs, newest first. Examines a bounded number of rows when no index answers alone."""

    def narrow(
        self, queryset: models.QuerySet[Any], position: list[int]
    ) -> tuple[models.QuerySet[Any], list[int]]:
        model_admin: Any = self.model_admin
        if queryset.query.is_empty():
            return queryset, []
        queryset = queryset.defer(*model_admin.private_fields)
        conditions = self._conditions()
        leading = model_admin.leading_conditions(conditions)
        older = {"id__lt": position[0]} if position else {}
        floor = None
        if leading != conditions:
            floor = self._floor(older | leading, model_admin.rows_per_look)
        if floor is not None:
            queryset = queryset.filter(id__gte=floor)
        implied = model_admin.implied_conditions(conditions)
        return queryset.filter(**older, **implied), [] if floor is None else [floor]

    def place(self, row: Any) -> list[int]:
        return [row.pk]

    def _conditions(self) -> dict[str, Any]:
        model_admin: Any = self.model_admin
        conditions = dict(model_admin.parse_search(self.query))
        filters: Any = self.filter_specs
        for exact in filters:
            conditions |= exact.condition()
        return conditions

    def _floor(self, leading: dict[str, Any], rows: int) -> int | None:
        """Return the lowest id of the ``rows`` newest jobs that satisfy ``leading``."""
        ids = self.root_queryset.filter(**leading).order_by("-id").values_list("id", flat=True)
        return next(iter(ids[rows - 1 : rows]), None)


class AttemptChangeList(EndlessChangeList):
    """Attempts, those of the newest job first: the order of the primary key."""

    order = ("-job_id", "-claim")

    def narrow(
        self, queryset: models.QuerySet[Any], position: list[int]
    ) -> tuple[models.QuerySet[Any], list[int]]:
        model_admin: Any = self.model_admin
        queryset = queryset.defer(*model_admin.private_fields)
        if position:
            job_id, claim = position
            # The first condition is for the index, the second for the rows of one job.
            queryset = queryset.filter(job_id__lte=job_id)
            queryset = queryset.filter(Q(job_id__lt=job_id) | Q(claim__lt=claim))
        return queryset, []

    def place(self, row: Any) -> list[int]:
        return [row.job_id, row.claim]


def _position(text: str | None, *, parts: int) -> list[int]:
    if text is None:
        return []
    position = [int(part) for part in text.split(".")] if _POSITION.fullmatch(text) else []
    if len(position) != parts or any(number not in BIGINT for number in position):
        raise IncorrectLookupParameters(text)
    return position
