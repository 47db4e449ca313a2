"""pgjobs_redrive and pgjobs_cancel."""

from __future__ import annotations

import io

import pytest
from django.core.management import CommandError, call_command

from django_pgjobs.models import ActiveJob, CompletedJob
from tests import factories

pytestmark = pytest.mark.usefixtures("tables")

CHOOSE = "Give either ids of jobs, or a filter such as --job, or --all."


def run(*command):
    out = io.StringIO()
    call_command(*map(str, command), stdout=out)
    return out.getvalue().splitlines()


def test_jobs_are_redriven_by_id():
    dead, completed = factories.dead_job(), factories.completed_job()

    assert run("pgjobs_redrive", dead.id, completed.id) == [
        "redriven: 1",
        f"skipped (neither dead nor cancelled): 1: {completed.id}",
    ]
    assert ActiveJob.objects.get().id == dead.id


def test_jobs_are_redriven_by_filter_at_a_rate():
    jobs = [factories.dead_job(job_name="a", idempotency_key=key) for key in "xy"]
    factories.dead_job(job_name="b")
    factories.pending_job(job_name="a", idempotency_key="y")

    assert run("pgjobs_redrive", "--job", "a", "--rate", 1000) == [
        "redriven: 1",
        f"conflicting (an unfinished job holds the idempotency key): 1: {jobs[1].id}",
    ]


def test_a_dry_run_only_counts():
    factories.dead_job(queue_name="mail", tenant_id=3, fingerprint="f")
    factories.dead_job()
    factories.cancelled_job()

    filters = ["--queue", "mail", "--tenant", "3", "--fingerprint", "f"]
    assert run("pgjobs_redrive", *filters, "--dry-run") == ["would redrive: 1"]
    assert run("pgjobs_redrive", "--all", "--dry-run") == ["would redrive: 2"]
    assert run("pgjobs_redrive", "--status", "cancelled", "--all", "--dry-run") == [
        "would redrive: 1"
    ]
    times = ["--since", "2000-01-01T00:00", "--until", "2001-01-01T00:00+02:00"]
    assert run("pgjobs_redrive", *times, "--dry-run") == ["would redrive: 0"]
    assert CompletedJob.objects.count() == 3


def test_what_was_done_is_told_also_to_who_loses_patience(monkeypatch):
    factories.dead_job()
    factories.dead_job()

    def give_up(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        "django_pgjobs.administration.pacing.paced.__kwdefaults__",
        {"clock": lambda: 0.0, "wait": give_up},
    )
    out = io.StringIO()

    with pytest.raises(KeyboardInterrupt):
        call_command("pgjobs_redrive", "--all", "--rate", "1", stdout=out)

    assert out.getvalue() == "redriven: 1\n"


def test_jobs_are_cancelled_by_id_and_by_filter():
    job, running = factories.pending_job(), factories.running_job(tenant_id=3)

    assert run("pgjobs_cancel", "--tenant", 3, "--dry-run") == ["would cancel: 1"]
    assert run("pgjobs_cancel", "--tenant", 3) == ["cancelled: 0", "asked to stop: 1"]
    assert run("pgjobs_cancel", job.id, running.id + 100, "--reason", "old") == [
        "cancelled: 1",
        "asked to stop: 0",
        "skipped (finished, unknown or busy): 1",
    ]
    assert CompletedJob.objects.get().error_message == "Cancelled by the system: old"


@pytest.mark.parametrize("command", ["pgjobs_redrive", "pgjobs_cancel"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], CHOOSE),
        (["1", "--job", "a"], CHOOSE),
        (["--all", "--job", "a"], CHOOSE),
        (["1", "--dry-run"], "--dry-run counts what a filter finds; ids were given."),
        (["0"], "The id of a job is a whole number above zero, not 0."),
        (["--job", ""], "job must be text of 1 to 255 bytes, not ''."),
        (["--since", "soon"], "Error: argument --since: must be a date with a time, 2026-02-28T0"),
        (["--since", "2026-02-30T00:00"], "Error: argument --since: must be a date with a time"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(command, options, message):
    factories.pending_job()
    factories.dead_job()

    with pytest.raises(CommandError) as refused:
        run(command, *options)

    assert str(refused.value).startswith(message)
    assert (ActiveJob.objects.count(), CompletedJob.objects.count()) == (1, 1)


@pytest.mark.parametrize("rate", ["0", "-1", "nan", "inf", "fast"])
def test_a_rate_is_above_zero(rate):
    with pytest.raises(CommandError, match="argument --rate: must be a number above 0"):
        run("pgjobs_redrive", "--all", f"--rate={rate}")
