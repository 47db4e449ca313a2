"""``manage.py pgjobs_health``"""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...conf import get_settings
from ...observability.health import read_health
from ...store.connecting import SessionOptions, connect
from ..starting import require_schema


class Command(BaseCommand):
    """Print how the site stands, as JSON."""

    help = (
        "Print how queues, workers and maintenance stand, as JSON; exit 1 if something is wrong."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        settings = get_settings()
        try:
            require_schema(settings.database)
        except CommandError as error:
            answer = {"is_healthy": False, "problems": [str(error)]}
            self.stdout.write(json.dumps(answer, indent=2))
            sys.exit(1)
        with connect(
            settings.database, "pgjobs health", SessionOptions.from_settings(settings)
        ) as connection:
            health = read_health(connection, lease=settings.lease_duration)
        self.stdout.write(json.dumps(health.as_dict(), indent=2))
        sys.exit(1 if health.problems else 0)
