"""What all pages have in common: guards against curious and broken requests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.widgets import AdminTextInputWidget
from django.core.exceptions import ValidationError
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from ..conf import get_settings

if TYPE_CHECKING:
    Admin = admin.ModelAdmin[Any]
else:
    Admin = admin.ModelAdmin

VIEW_PAYLOAD: Final = "django_pgjobs.view_payload"

#: What fits the type bigint.
BIGINT: Final = range(-(2**63), 2**63)


def may_see_payloads(request: HttpRequest) -> bool:
    """Tell whether the user may see payloads, results, error texts and tracebacks."""
    return request.user.has_perm(VIEW_PAYLOAD)


class GuardedAdmin(Admin):
    """A page whose address cannot be used to ask about columns it does not show.

    Django lets whoever sees a list filter it by any local field, so that
    ``?payload__token__startswith=a`` would read a hidden payload letter by letter.
    """

    show_full_result_count = False
    # Facets count the rows of each choice.
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 100
    list_max_show_all = 0
    formfield_overrides: ClassVar[Any] = {models.TextField: {"widget": AdminTextInputWidget}}

    #: Lookups in the address beside the parameters of the page's own filters.
    allowed_lookups: ClassVar[frozenset[str]] = frozenset()

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Allow the page's own filters and nothing else."""
        return lookup in self.allowed_lookups or lookup in self._own_parameters(request)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Show the list under the name of what it lists."""
        context = {"title": capfirst(self.opts.verbose_name_plural)}
        return super().changelist_view(request, context | (extra_context or {}))

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        """Return the row, or None, also for an id that no row can have."""
        if not _is_key(self.model, object_id):
            return None
        return super().get_object(request, object_id, from_field)

    def response_action(
        self, request: HttpRequest, queryset: models.QuerySet[Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Refuse a selection that no checkbox of the page could have made."""
        selected = request.POST.getlist(ACTION_CHECKBOX_NAME)
        if not all(_is_key(self.model, key) for key in selected):
            self.message_user(request, _("That selection makes no sense."), messages.ERROR)
            return None
        return super().response_action(request, queryset, *args, **kwargs)

    def _own_parameters(self, request: HttpRequest | None) -> set[str]:
        filters = self.get_list_filter(request) if request else self.list_filter
        return {getattr(item, "parameter_name", "") for item in filters or ()} - {"", None}


class LinkedAdmin(GuardedAdmin):
    """A list with further pages of its own, each at an address below the list's.

    A page is a name, a title, the permission that it needs beside that to see the list, or None,
    and a view.
    """

    #: Further pages.
    pages: ClassVar[tuple[tuple[str, Any, str | None, Callable[..., HttpResponse]], ...]] = ()

    def get_urls(self) -> list[URLPattern]:
        """Return the addresses of the list, of its rows, and of the further pages."""
        own = [
            path(f"{name}/", self._guarded(view), name=f"{self._url_prefix}_{name}")
            for name, _title, _permission, view in self.pages
        ]
        return [*own, *super().get_urls()]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Show the list, with links to the pages that the user may see."""
        links = [
            (f"admin:{self._url_prefix}_{name}", title)
            for name, title, permission, _view in self.pages
            if permission is None or request.user.has_perm(permission)
        ]
        return super().changelist_view(request, {"links": links} | (extra_context or {}))

    @property
    def _url_prefix(self) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}"

    def _guarded(self, view: Callable[..., HttpResponse]) -> Callable[..., Any]:
        return self.admin_site.admin_view(partial(view, self))


class ReadOnlyAdmin(LinkedAdmin):
    """Rows that only the protocol writes: nobody adds, changes or deletes them here."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [
            name
            for _title, options in self.get_fieldsets(request, obj)
            for name in options["fields"]
        ]


class ConfigAdmin(GuardedAdmin):
    """Rows that people edit, in the database of the jobs whatever routers say."""

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Write what the form changed, and no column that maintenance writes meanwhile."""
        fields = {"update_fields": self.written_fields(form)} if change else {}
        obj.save(using=get_settings().database, **fields)

    def written_fields(self, form: Any) -> list[str]:
        """Return the fields to write when a row is changed."""
        return list(form.changed_data)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        obj.delete(using=get_settings().database)


def _is_key(model: type[models.Model], text: str) -> bool:
    # PostgreSQL refuses a NUL in any text, and a number that is no bigint.
    try:
        value = model._meta.pk.to_python(text)
    except ValidationError:
        return False
    return value in BIGINT if isinstance(value, int) else "\x00" not in str(value)
