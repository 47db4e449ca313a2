"""What the proxy does to connections."""

from __future__ import annotations

import psycopg
import pytest

from tests.chaos.proxy import Proxy
from tests.fix_workers import wait_until


@pytest.fixture
def proxy(connection):
    with Proxy(connection.info.port) as proxy:
        yield proxy


@pytest.fixture
def through(proxy, connection):
    """Return a connection through the proxy."""
    info = connection.info
    with psycopg.connect(
        host=info.host, port=proxy.port, user=info.user, dbname=info.dbname, autocommit=True
    ) as through:
        yield through


def own_port(through):
    """Return the client's port of a connection."""
    import socket

    with socket.fromfd(through.fileno(), socket.AF_INET, socket.SOCK_STREAM) as own:
        return own.getsockname()[1]


def test_it_passes_on_what_is_said(through):
    assert through.execute("SELECT repeat('x', 1000000)").fetchone() == ("x" * 1_000_000,)


def test_a_reset_breaks_connections_and_takes_new_ones(proxy, through, connection):
    proxy.reset()

    with pytest.raises(psycopg.OperationalError):
        through.execute("SELECT 1")
    info = connection.info
    with psycopg.connect(
        host=info.host, port=proxy.port, user=info.user, dbname=info.dbname
    ) as other:
        assert other.execute("SELECT 1").fetchone() == (1,)


def test_an_answer_can_get_lost_after_the_commit(proxy, through, connection, background):
    through.execute("CREATE TEMPORARY TABLE heard (id int)")
    proxy.mute(own_port(through))

    asked = background(through.execute, "INSERT INTO queue_config (queue_name) VALUES ('heard')")
    query = "SELECT EXISTS (SELECT FROM queue_config WHERE queue_name = 'heard')"
    wait_until(lambda: connection.execute(query).fetchone()[0], "it commits")
    assert not asked.done()
    proxy.unmute()

    with pytest.raises(psycopg.OperationalError):
        asked.result(20)


def test_in_the_dark_nothing_passes_and_nothing_ends(proxy, through, connection, background):
    proxy.darken()

    asked = background(through.execute, "INSERT INTO queue_config (queue_name) VALUES ('dark')")
    # Whatever it was that could get through would have got through in this time.
    for _ in range(50):
        connection.execute("SELECT pg_sleep(0.002)")
    assert not asked.done()
    proxy.lighten()

    with pytest.raises(psycopg.OperationalError):
        asked.result(20)
    assert connection.execute("SELECT count(*) FROM queue_config").fetchone() == (0,)


def test_latency_only_makes_it_slower(proxy, through):
    proxy.delay(0.001)

    assert through.execute("SELECT 1").fetchone() == (1,)


def test_healed_it_takes_connections(proxy, connection):
    for misbehave in (proxy.darken, proxy.mute):
        misbehave()
        proxy.heal()
        info = connection.info
        with psycopg.connect(
            host=info.host, port=proxy.port, user=info.user, dbname=info.dbname
        ) as other:
            assert other.execute("SELECT 1").fetchone() == (1,)
