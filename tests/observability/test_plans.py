"""The check of plans for a site."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command

from django_pgjobs.observability.plans import judge_statements
from django_pgjobs.store.explain import statement_names


def fill(connection, jobs: int) -> None:
    connection.execute(
        "INSERT INTO jobs_active (epoch, tenant_id, created_at, scheduled_at, status, job_name) "
        "SELECT 1, n % 50, now(), now(), 'pending', 'x' FROM generate_series(1, %s) AS n".replace(
            "n % 50", "n %% 50"
        ),
        [jobs],
    )
    connection.execute("ANALYZE jobs_active")


def test_every_statement_is_planned_well(connection):
    fill(connection, 20_000)

    verdicts = judge_statements(connection, queue="default")

    assert [verdict.name for verdict in verdicts] == statement_names()
    assert [verdict for verdict in verdicts if verdict.problems] == []


def test_a_dropped_index_is_noticed(connection):
    fill(connection, 20_000)
    with connection.transaction(force_rollback=True):
        connection.execute("DROP INDEX jobs_active_claim")

        verdicts = judge_statements(connection, queue="default")

    bad = {verdict.name: verdict.problems for verdict in verdicts if verdict.problems}
    assert "of jobs_active." in " ".join(bad["claim/claim_jobs"])


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
