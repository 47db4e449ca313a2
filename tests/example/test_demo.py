"""The demo, from beginning to end, against the server of the tests."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "example_project.demo"]

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture
def environment():
    """The demo has settings of its own, and makes a database of its own."""
    return {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}


def databases_of(pid):
    """Return the databases that a demo made."""
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path="/postgres").geturl()
    with psycopg.connect(url) as connection:
        pattern = f"^shop_{pid}_"
        query = "SELECT datname FROM pg_database WHERE datname ~ %s"
        return [name for (name,) in connection.execute(query, [pattern])]


def processes_of(pid):
    """Return the processes that a demo started, where the kernel tells."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return children.read_text().split() if children.exists() else []


def test_the_demo_ends_well(environment):
    with (CHECKOUT / "example_project" / "data" / "orders.csv").open(encoding="utf-8") as file:
        orders = len({line["order"] for line in csv.DictReader(file)})

    done = subprocess.run(
        COMMAND, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"receipts delivered +{orders}\n", done.stdout)
    assert re.search(r"export_orders +lost +LeaseLost +1\n", done.stdout)
    assert re.search(r"send_receipt +failed +SMTPRecipientsRefused +[1-9]", done.stdout)
    assert "NotDeliverable: No carrier delivers to" in done.stdout
    assert re.search(r"daily_report .* UTC +1\n", done.stdout)
    assert "FAIL" not in done.stdout


def test_an_interrupted_demo_leaves_nothing_behind(environment):
    demo = subprocess.Popen(
        COMMAND, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, text=True
    )
    with demo:
        any("Place the orders" in line for line in demo.stdout)
        made, started = databases_of(demo.pid), processes_of(demo.pid)

        demo.send_signal(signal.SIGINT)
        # As timeout(1) does, to the process and then to its group: no second request.
        demo.send_signal(signal.SIGINT)
        output = demo.stdout.read()

    assert "everything has been stopped" in output
    assert demo.returncode == 130
    assert len(made) == 1
    assert databases_of(demo.pid) == []
    assert [pid for pid in started if Path(f"/proc/{pid}").exists()] == []
