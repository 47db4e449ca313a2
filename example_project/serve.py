"""Leave the shop running, with its admin, a worker with maintenance, and a mail server.

    python -m example_project.serve

Stops everything on Ctrl-C. Without ``DATABASE_URL`` the data goes too.
"""

from __future__ import annotations

import secrets
import sys
import time
from contextlib import ExitStack
from subprocess import Popen
from typing import Final

import django
from django.core.management import call_command

from .databases import server
from .mail import MailCatcher, mail_catcher
from .processes import command, stop_on_terminate, use, website

#: Where the website listens, unless something else does.
PORT: Final = 8000


def main() -> int:
    """Run until interrupted."""
    stop_on_terminate()
    try:
        with server() as url, mail_catcher() as catcher:
            use(url, catcher.port)
            django.setup()
            _serve(catcher)
    except KeyboardInterrupt:
        print("\nEverything has been stopped.")
    except ChildProcessError as error:
        print(error)
        return 1
    return 0


def _serve(catcher: MailCatcher) -> None:
    from .shop.catalogue import load  # noqa: PLC0415 - needs the app registry
    from .story import ORDERS  # noqa: PLC0415 - needs the app registry

    call_command("migrate", verbosity=0)
    load(ORDERS)
    password = _make_superuser()
    with ExitStack() as started:
        site = started.enter_context(website(port=PORT))
        worker = started.enter_context(command("pgjobs_worker", "--maintain"))
        print(f"\n  The shop    {site}/")
        print(f"  The admin   {site}/admin/   user admin, password {password}")
        print("  Stop        Ctrl-C\n", flush=True)
        _print_mail(catcher, worker)


def _make_superuser() -> str:
    from django.contrib.auth.models import User  # noqa: PLC0415 - needs the app registry

    password = secrets.token_urlsafe(9)
    user, _ = User.objects.get_or_create(username="admin")
    user.is_staff = user.is_superuser = True
    user.set_password(password)
    user.save()
    return password


def _print_mail(catcher: MailCatcher, worker: Popen[bytes]) -> None:
    shown = 0
    while worker.poll() is None:
        for message in catcher.messages[shown:]:
            print(f"  mail to {message['To']}: {message['Subject']}", flush=True)
            shown += 1
        time.sleep(0.5)
    raise ChildProcessError(f"The worker ended with status {worker.returncode}.")


if __name__ == "__main__":
    sys.exit(main())
