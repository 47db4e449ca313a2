"""The shop that is left running, with its admin."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from example_project.browser import Browser

CHECKOUT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture
def database():
    """A database that nobody else uses."""
    url = urlsplit(os.environ["DATABASE_URL"])
    name = f"serve_{os.getpid()}"
    with psycopg.connect(url._replace(path="/postgres").geturl(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield url._replace(path=f"/{name}").geturl()
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def shop(database):
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    with subprocess.Popen(
        [sys.executable, "-m", "example_project.serve"],
        cwd=CHECKOUT,
        env={**environment, "DATABASE_URL": database},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.terminate()


def read_until(lines, pattern):
    """Return the groups of the first line that matches."""
    for line in lines:
        if found := re.search(pattern, line):
            return found.groups()
    raise AssertionError(f"There is no line like {pattern!r}.")


def test_the_shop_takes_orders_and_stops_when_interrupted(shop):
    (site,) = read_until(shop.stdout, r"The shop +(\S+)/")
    (password,) = read_until(shop.stdout, r"user admin, password (\S+)")
    browser = Browser(site)

    form = {"name": "Zoë", "email": "zoe@post.example", "city": "Köln", "country": "DE"}
    order = browser.post("/merchants/nandu/", {**form, "NA-QUIJ": "2"})

    read_until(shop.stdout, "mail to zoe@post.example: Your order 1 at Librería Ñandú")
    wait_for(lambda: browser.get(urlsplit(order).path).count("state completed") == 2)
    login = {"username": "admin", "password": password, "next": "/admin/"}
    assert browser.post("/admin/login/", login) == f"{site}/admin/"
    assert "send_receipt" in browser.get("/admin/django_pgjobs/completedjob/")
    shop.send_signal(signal.SIGINT)
    assert shop.wait(timeout=30) == 0


def wait_for(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)
