"""Follow the tutorial as its reader does, and see what it promises."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from urllib.error import URLError
from urllib.parse import urlsplit

import psycopg
import pytest

from example_project.browser import Browser
from tools.machine import free_port

from .blocks import DOCS, blocks_of

TUTORIAL = DOCS / "tutorial" / "your-first-job.md"

pytestmark = [pytest.mark.process, pytest.mark.slow]


class Reader:
    """Somebody who does what the tutorial says, in a directory and a database of his own."""

    def __init__(self, directory, database):
        url = urlsplit(os.environ["DATABASE_URL"])
        self.directory = directory
        self.database = database
        self.port = free_port()
        self.maintenance = url._replace(path="/postgres").geturl()
        self.running = ExitStack()
        self.worker = None
        self.ordered = 0
        # The tutorial's settings name no server: libpq finds it here.
        self.environment = {
            **{k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"},
            "PGHOST": url.hostname or "",
            "PGPORT": str(url.port or 5432),
            "PGUSER": url.username or "",
            "PGPASSWORD": url.password or "",
            "PYTHONUNBUFFERED": "1",
        }

    def follow(self, block):
        if block.language == "console":
            for line in block.code.splitlines():
                self.type(line.removeprefix("$ "))
        elif block.caption == "in the shell":
            self.run("manage.py", "shell", "--command", block.code)
        else:
            self.write(block)

    def write(self, block):
        name, _, at_the_end = block.caption.partition(", ")
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        code = block.code.replace('"bookshop"}', f'"{self.database}"}}')
        with path.open("a" if at_the_end else "w", encoding="utf-8") as file:
            file.write(f"\n{code}")

    def type(self, line):
        program, *arguments = line.split()
        if "pip" in arguments:
            # It is installed, or this test would not run.
            return
        if program == "createdb":
            self.execute(f"CREATE DATABASE {self.database}")
            self.running.callback(
                self.execute, f"DROP DATABASE IF EXISTS {self.database} WITH (FORCE)"
            )
        elif arguments[-1] == "runserver":
            self.start(*arguments, "--noreload", str(self.port))
            self.order("before there is a worker")
        elif "pgjobs_worker" in arguments:
            self.restart_worker(arguments)
        else:
            self.run(*arguments)

    def restart_worker(self, arguments):
        if self.worker is not None:
            self.worker.send_signal(signal.SIGINT)
            assert self.worker.wait(timeout=30) == 0
        self.worker = self.start(*arguments)
        if self.ordered == 1:
            self.see_receipt(1)
        self.order("another one")
        self.see_receipt(self.ordered)

    def order(self, title):
        browser = Browser(f"http://127.0.0.1:{self.port}")
        wait_for(lambda: answers(browser), "the website answers")
        browser.post("/", {"title": title, "email": "reader@example.com"})
        self.ordered += 1

    def see_receipt(self, count):
        wait_for(
            lambda: self.output().count("thank you for ordering") == count, f"receipt {count}"
        )

    def output(self):
        return (self.directory / "output.log").read_text(encoding="utf-8")

    def run(self, *arguments):
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self, *arguments):
        with (self.directory / "output.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.directory,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.running.callback(process.wait)
        self.running.callback(process.terminate)
        return process

    def execute(self, statement):
        with psycopg.connect(self.maintenance, autocommit=True) as connection:
            connection.execute(statement)


def answers(browser):
    try:
        return bool(browser.get("/"))
    except URLError:
        return False


def wait_for(condition, what):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, f"Waited in vain for this: {what}."
        time.sleep(0.05)


@pytest.fixture
def reader(tmp_path):
    reader = Reader(tmp_path, f"bookshop_{os.getpid()}")
    with reader.running:
        yield reader


def test_the_tutorial_does_what_it_says(reader):
    for block in blocks_of(TUTORIAL):
        reader.follow(block)

    assert reader.ordered == 3
    assert "The printer is having lunch." in reader.output()
    assert re.search(r"job failed: .* attempt=1/5 ", reader.output())
