"""The check of plans for a site."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command

from django_pgjobs.observability.plans import judge_statements
from django_pgjobs.store.explain import statement_names


def fill(connection, jobs: int, *, analyze: bool = True) -> None:
    connection.execute(
        "INSERT INTO jobs_active (epoch, tenant_id, created_at, scheduled_at, status, job_name) "
        "SELECT 1, n % 50, now(), now(), 'pending', 'x' FROM generate_series(1, %s) AS n".replace(
            "n % 50", "n %% 50"
        ),
        [jobs],
    )
    if analyze:
        connection.execute("ANALYZE jobs_active")


def test_every_statement_is_planned_well(connection):
    fill(connection, 20_000)

    verdicts = judge_statements(connection, queue="default")

    assert [verdict.name for verdict in verdicts] == statement_names()
    assert [verdict for verdict in verdicts if verdict.problems] == []


@pytest.mark.parametrize("analyze", [True, False], ids=["analyzed", "never analyzed"])
@pytest.mark.parametrize(
    ("index", "name"),
    [
        ("jobs_active_claim", "claim/claim_jobs"),
        ("jobs_active_claim", "claim/claim_jobs_of_tenant"),
        # The planner expects few rows of a scan of everything here.
        ("jobs_active_running", "maintain/reap_leases"),
        ("jobs_active_waiting", "claim/stage_jobs"),
    ],
)
def test_a_dropped_index_is_noticed(connection, analyze, index, name):
    with connection.transaction(force_rollback=True):
        fill(connection, 20_000, analyze=analyze)
        connection.execute(f"DROP INDEX {index}")

        verdicts = judge_statements(connection, queue="default")

    (problems,) = (verdict.problems for verdict in verdicts if verdict.name == name)
    assert "reads the whole table jobs_active" in " ".join(problems)


def test_the_command_lists_every_statement(tables, capsys):
    call_command("pgjobs_explain")

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines] == statement_names()


def test_the_command_fails_when_a_plan_is_bad(connection, capsys):
    fill(connection, 20_000)
    connection.execute("ALTER INDEX jobs_active_claim RENAME TO kept")
    connection.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'kept'::regclass"
    )
    try:
        with pytest.raises(CommandError, match="statements read more than they need"):
            call_command("pgjobs_explain")
    finally:
        connection.execute(
            "UPDATE pg_index SET indisvalid = true WHERE indexrelid = 'kept'::regclass"
        )
        connection.execute("ALTER INDEX kept RENAME TO jobs_active_claim")
