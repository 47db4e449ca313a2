"""How each fault is done. Those that last are undone by a thread of their own."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

from django_pgjobs.sql import statement
from tests.chaos.faults import Fault
from tests.chaos.proxy import Proxy
from tests.chaos.site import Place, Site
from tests.fix_workers import PATIENCE, Process

#: Jobs of one act of an operator or of a lock storm.
SOME = 5
MANY = 50


class Chaos:
    """Does faults to a site.

    Attributes:
        done: how often each kind of fault was done.
        cancelled: job and generation of each cancellation that was promised.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._threads: list[threading.Thread] = []
        self._healing = threading.Event()
        self._restarting = threading.Lock()
        self._errors: list[BaseException] = []
        self.done: Counter[str] = Counter()
        self.cancelled: list[tuple[int, int]] = []

    def do(self, fault: Fault) -> None:
        """Do a fault; return before it is over."""
        thread = threading.Thread(target=self._do, args=(fault,), name=fault.kind, daemon=True)
        self._threads.append(thread)
        thread.start()

    def heal(self) -> None:
        """Undo every fault, and let everything that is stopped go on."""
        self._healing.set()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), f"the fault {thread.name!r} does not end"
        if self._errors:
            raise self._errors[0]
        for proxy in self._proxies():
            proxy.heal()
        for process in self._site.processes():
            process.send(signal.SIGCONT)
        # And what they have started, where that is known.
        for pid in self._site.survivors():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        with self._site.connect() as connection:
            connection.execute(RESUME)

    def _do(self, fault: Fault) -> None:
        try:
            ACTS[fault.kind](self, fault)
            self.done[fault.kind] += 1
        except (psycopg.OperationalError, psycopg.InterfaceError):
            # Another fault was faster: the server is down, the backend terminated.
            self.done[f"{fault.kind} (in vain)"] += 1
        except Exception as error:
            self._errors.append(error)

    def _last(self, fault: Fault) -> None:
        self._healing.wait(fault.lasts)

    def _place(self, name: str, fault: Fault) -> Place:
        places = self._site.named(name)
        return places[fault.place % len(places)]

    def _process(self, name: str, fault: Fault) -> Process:
        return self._place(name, fault).running

    # Processes

    def kill_worker(self, fault: Fault) -> None:
        self._process("worker", fault).send(signal.SIGKILL)

    def kill_child(self, fault: Fault) -> None:
        """Kill a worker of a supervisor, or a process in which a handler runs."""
        children = self._site.children()
        if children:
            # It may have ended by now.
            with suppress(ProcessLookupError):
                os.kill(children[fault.place % len(children)], signal.SIGKILL)

    def kill_maintenance(self, fault: Fault) -> None:
        self._process("maintenance", fault).send(signal.SIGKILL)

    def kill_producer(self, fault: Fault) -> None:
        self._process("producer", fault).send(signal.SIGKILL)

    def stop_worker(self, fault: Fault) -> None:
        self._stop("worker", fault)

    def stop_maintenance(self, fault: Fault) -> None:
        self._stop("maintenance", fault)

    def _stop(self, name: str, fault: Fault) -> None:
        process = self._process(name, fault)
        process.send(signal.SIGSTOP)
        self._last(fault)
        process.send(signal.SIGCONT)

    def end_worker(self, fault: Fault) -> None:
        """Deploy: another one starts at once, while the old one still drains."""
        self._site.replace(self._place("worker", fault))

    def end_worker_twice(self, fault: Fault) -> None:
        process = self._process("worker", fault)
        process.send(signal.SIGTERM)
        self._last(fault)
        process.send(signal.SIGTERM)

    # The network

    def reset(self, fault: Fault) -> None:
        self._proxy(fault).reset()

    def black_hole(self, fault: Fault) -> None:
        proxy = self._proxy(fault)
        proxy.darken()
        self._last(fault)
        proxy.lighten()

    def latency(self, fault: Fault) -> None:
        proxy = self._proxy(fault)
        proxy.delay(0.05)
        self._last(fault)
        proxy.delay(0.0)

    def lose_answers(self, fault: Fault) -> None:
        proxy = self._proxy(fault)
        proxy.mute()
        self._last(fault)
        proxy.unmute()

    def _proxy(self, fault: Fault) -> Proxy:
        proxies = self._proxies()
        return proxies[fault.place % len(proxies)]

    def _proxies(self) -> list[Proxy]:
        return [place.proxy for place in self._site.places if place.proxy is not None]

    # The server

    def terminate_backends(self, fault: Fault) -> None:
        self._sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "ORDER BY random() LIMIT 3"
        )

    def restart_server(self, fault: Fault) -> None:
        with self._restarting:
            self._site.server.stop("immediate")
            self._last(fault)
            self._site.server.start()

    def pin_horizon(self, fault: Fault) -> None:
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ"
        self._hold("SELECT count(*) FROM jobs_active", fault, begin=begin)

    def lock_jobs(self, fault: Fault) -> None:
        query = "SELECT FROM jobs_active ORDER BY random() LIMIT {} FOR UPDATE SKIP LOCKED"
        self._hold(query.format(MANY), fault)

    def lock_configuration(self, fault: Fault) -> None:
        self._hold("SELECT FROM tenant_config, queue_config FOR UPDATE", fault)

    def lock_history(self, fault: Fault) -> None:
        self._hold("LOCK TABLE jobs_completed IN ACCESS EXCLUSIVE MODE", fault)

    def begin_epoch(self, fault: Fault) -> None:
        self._sql(statement("maintain/move_epoch"))

    def _hold(self, query: str, fault: Fault, *, begin: str = "BEGIN") -> None:
        with self._site.connect() as connection:
            connection.execute("SET lock_timeout = '2s'")
            connection.execute(begin)
            connection.execute(query)
            self._last(fault)
            connection.execute("COMMIT")

    # Operators

    def cancel_jobs(self, fault: Fault) -> None:
        with self._site.connect() as connection, connection.transaction():
            rows = connection.execute(
                "SELECT id, generation FROM jobs_active ORDER BY random() LIMIT %s", [SOME]
            ).fetchall()
            generations = dict(rows)
            text = statement("administer/cancel_jobs")
            params = {"ids": list(generations), "reason": "chaos"}
            cancelled = connection.execute(text, params).fetchall()
            promised = [(job_id, generations[job_id]) for job_id, _ in cancelled]
        self.cancelled += promised

    def redrive_jobs(self, fault: Fault) -> None:
        rows = self._sql(
            "SELECT id FROM jobs_completed WHERE status IN ('dead', 'cancelled') "
            f"ORDER BY random() LIMIT {SOME}"
        )
        self._sql(statement("administer/redrive_jobs"), {"ids": [job_id for (job_id,) in rows]})

    def pause_queue(self, fault: Fault) -> None:
        with self._site.connect() as connection:
            connection.execute(PAUSE)
        self._last(fault)
        with self._site.connect() as connection:
            connection.execute(RESUME)

    def _sql(self, query: str, params: dict[str, Any] | None = None) -> list[Any]:
        with self._site.connect() as connection:
            return connection.execute(query, params).fetchall()


PAUSE = "UPDATE queue_config SET paused = true, paused_at = now() WHERE queue_name = 'other'"
PAUSE = "UPDATE queue_config SET paused = true, paused_at = now() WHERE queue_name = 'other'"
RESUME = "UPDATE queue_config SET paused = false, paused_at = NULL WHERE paused"


ACTS: dict[str, Callable[[Chaos, Fault], None]] = {
    "kill a worker": Chaos.kill_worker,
    "stop a worker past its lease": Chaos.stop_worker,
    "ask a worker to end": Chaos.end_worker,
    "ask a worker to end, twice": Chaos.end_worker_twice,
    "kill a child": Chaos.kill_child,
    "kill maintenance": Chaos.kill_maintenance,
    "stop maintenance": Chaos.stop_maintenance,
    "kill a producer": Chaos.kill_producer,
    "reset connections": Chaos.reset,
    "black hole": Chaos.black_hole,
    "latency": Chaos.latency,
    "lose answers": Chaos.lose_answers,
    "terminate backends": Chaos.terminate_backends,
    "restart the server at once": Chaos.restart_server,
    "pin the horizon": Chaos.pin_horizon,
    "lock jobs": Chaos.lock_jobs,
    "lock configuration": Chaos.lock_configuration,
    "lock history": Chaos.lock_history,
    "cancel jobs": Chaos.cancel_jobs,
    "redrive jobs": Chaos.redrive_jobs,
    "begin an epoch": Chaos.begin_epoch,
    "pause a queue": Chaos.pause_queue,
}
