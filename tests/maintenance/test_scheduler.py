"""Each slot of a schedule enqueues one job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from django_pgjobs.definitions.definition import JobDefinition
from django_pgjobs.definitions.registry import Registry
from django_pgjobs.definitions.slots import Defaults
from django_pgjobs.maintenance.scheduler import Scheduler, SlotPruner
from django_pgjobs.models import ActiveJob, CronSchedule
from tests import factories
from tests.invariants import check_invariants
from tests.store.calls import claim_jobs, complete

#: The tests travel in time: to a quiet day, whose slots are easy to count.
DEFAULTS = Defaults(queue="default", max_attempts=3)
MIDNIGHT = datetime(2026, 6, 15, tzinfo=UTC)
HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)


def known():
    pass


@pytest.fixture
def scheduler():
    registry = Registry()
    registry.add(
        JobDefinition(
            name="tests.known", function=known, queue="reports", max_attempts=7, priority=2
        )
    )
    return Scheduler(registry=registry, defaults=DEFAULTS)


@pytest.fixture
def at(connection, scheduler):
    """Return a function that runs the scheduler at so long after midnight."""

    def at(after=timedelta(0), batch_size=10):
        return scheduler.run_once(connection, batch_size=batch_size, now=MIDNIGHT + after)

    return at


def hourly(**fields) -> CronSchedule:
    """Make a schedule that has fired at midnight."""
    defaults = {
        "cron_expression": "0 * * * *",
        "active_since": MIDNIGHT - timedelta(days=30),
        "last_slot_at": MIDNIGHT,
        # None where it has to be worked out.
        "next_run_at": None if "cron_expression" in fields else MIDNIGHT + HOUR,
    }
    return factories.CronScheduleFactory(**{**defaults, **fields})


def slots():
    """Return the hours and minutes of the slots for which there are jobs, in order of ids."""
    jobs = ActiveJob.objects.order_by("id")
    return [datetime.fromisoformat(job.meta["slot"]).strftime("%d %H:%M") for job in jobs]


def records(connection):
    rows = connection.execute("SELECT slot_at, kind FROM cron_runs ORDER BY slot_at")
    return [(f"{at.astimezone(UTC):%H:%M}", kind) for at, kind in rows]


def test_nothing_is_due(at):
    hourly()
    hourly(next_run_at=MIDNIGHT, enabled=False)
    hourly(next_run_at=MIDNIGHT, removed_at=MIDNIGHT)

    assert at(59 * MINUTE).touched == []


def test_a_due_slot_enqueues_its_job_and_moves_on(connection, at):
    schedule = hourly(job_name="tests.known", payload={"x": 1}, tenant_id=4, payload_version=3)

    (job_id,) = at(HOUR + SECOND).touched

    job = ActiveJob.objects.get(pk=job_id)
    assert (job.job_name, job.payload, job.tenant_id) == ("tests.known", {"x": 1}, 4)
    assert (job.queue_name, job.max_attempts, job.priority) == ("reports", 7, 2)
    assert (job.payload_version, job.status) == (3, "pending")
    assert job.scheduled_at == MIDNIGHT + HOUR
    assert job.meta == {"schedule": schedule.name, "slot": "2026-06-15T01:00:00+00:00"}
    schedule.refresh_from_db()
    assert (schedule.last_slot_at, schedule.next_run_at) == (MIDNIGHT + HOUR, MIDNIGHT + 2 * HOUR)
    assert (schedule.last_run_at, schedule.last_job_id) == (MIDNIGHT + HOUR + SECOND, job_id)
    assert at(HOUR + SECOND).touched == []
    assert records(connection) == [("01:00", "slot")]


def test_what_the_schedule_says_goes_before_what_the_job_says(at):
    hourly(job_name="tests.known", queue_name="own", priority=9, max_attempts=1)

    at(HOUR)

    job = ActiveJob.objects.get()
    assert (job.queue_name, job.priority, job.max_attempts) == ("own", 9, 1)


def test_a_job_that_this_process_does_not_know_is_enqueued_all_the_same(at):
    hourly(job_name="tests.elsewhere")

    at(HOUR)

    job = ActiveJob.objects.get()
    assert (job.queue_name, job.priority, job.max_attempts) == ("default", 0, 3)


def test_more_schedules_than_a_batch(at):
    for _ in range(3):
        hourly()

    reports = [at(HOUR, batch_size=2) for _ in range(2)]

    assert [len(report.touched) for report in reports] == [2, 1]
    assert [report.is_full for report in reports] == [True, False]


class TestStart:
    """No slot from before there was a schedule."""

    def test_a_new_schedule_waits_for_its_first_slot(self, at):
        schedule = factories.CronScheduleFactory(
            cron_expression="0 * * * *", active_since=MIDNIGHT + MINUTE
        )

        assert at(2 * MINUTE).touched == []
        schedule.refresh_from_db()
        assert schedule.next_run_at == MIDNIGHT + HOUR

    def test_one_made_while_no_maintenance_ran_has_slots_from_then_on(self, at):
        factories.CronScheduleFactory(
            cron_expression="0 * * * *",
            active_since=MIDNIGHT + 10 * MINUTE,
            catch_up="catch_up",
        )

        at(3 * HOUR)

        assert slots() == ["15 01:00", "15 02:00", "15 03:00"]

    def test_none_from_before_it_was_resumed(self, at):
        hourly(catch_up="catch_up", active_since=MIDNIGHT + 150 * MINUTE)

        at(3 * HOUR)

        assert slots() == ["15 03:00"]

    def test_a_paused_schedule_has_none(self, at):
        hourly(catch_up="catch_up", enabled=False)

        assert at(12 * HOUR).touched == []


class TestOnce:
    """A slot fires once, whatever happens."""

    def test_a_slot_that_has_fired_does_not_fire_again(self, at):
        """Even if its job is gone and the schedule's row is set back, as by hand."""
        schedule = hourly()
        at(HOUR)
        ActiveJob.objects.all().delete()
        CronSchedule.objects.update(next_run_at=schedule.next_run_at)

        assert at(HOUR + MINUTE).touched == []

    def test_nor_if_its_mark_is_lost(self, connection, at):
        schedule = hourly()
        at(HOUR)
        CronSchedule.objects.update(
            next_run_at=schedule.next_run_at, last_slot_at=schedule.last_slot_at
        )

        assert at(HOUR + MINUTE).touched == []
        assert len(slots()) == 1
        assert check_invariants(connection) == []

    def test_nor_if_its_record_is_pruned(self, connection, at):
        schedule = hourly()
        at(HOUR)
        connection.execute("DELETE FROM cron_runs")
        CronSchedule.objects.update(next_run_at=schedule.next_run_at)

        assert at(HOUR + MINUTE).touched == []

    def test_a_clock_that_steps_back_fires_nothing_again(self, at):
        hourly(catch_up="catch_up")
        at(5 * HOUR)
        at(2 * HOUR)
        CronSchedule.objects.update(next_run_at=None)
        at(2 * HOUR)

        at(6 * HOUR)

        assert slots() == [f"15 0{hour}:00" for hour in range(1, 7)]

    def test_two_schedulers_share_the_work(self, connect, scheduler):
        one, other = connect(autocommit=False), connect()
        hourly()
        now = MIDNIGHT + HOUR
        with one.transaction():
            fired = scheduler.run_once(one, batch_size=10, now=now).touched
            assert scheduler.run_once(other, batch_size=10, now=now).touched == []

        assert len(fired) == 1
        assert scheduler.run_once(other, batch_size=10, now=now).touched == []


class TestCatchUp:
    """Maintenance was away over twelve slots."""

    AWAY = 12 * HOUR + 30 * MINUTE

    def test_skip_fires_the_latest(self, at):
        hourly()

        at(self.AWAY)

        assert slots() == ["15 12:00"]
        assert "missed" not in ActiveJob.objects.get().meta

    def test_catch_up_fires_each(self, at):
        hourly(catch_up="catch_up")

        at(self.AWAY)

        assert slots() == [f"15 {hour:02}:00" for hour in range(1, 13)]
        assert at(self.AWAY).touched == []

    def test_catch_up_is_bounded(self, at, caplog):
        schedule = hourly(catch_up="catch_up", catch_up_limit=3, name="bounded")

        at(self.AWAY)

        assert slots() == ["15 10:00", "15 11:00", "15 12:00"]
        assert "The schedule 'bounded' missed more slots than it catches up with" in caplog.text
        schedule.refresh_from_db()
        assert schedule.next_run_at == MIDNIGHT + 13 * HOUR

    def test_very_many_slots_are_fired_in_several_transactions(self, at, monkeypatch):
        monkeypatch.setattr("django_pgjobs.maintenance.scheduler.SLOTS_AT_MOST", 20)
        for _ in range(5):
            hourly(catch_up="catch_up")

        reports = [at(self.AWAY) for _ in range(3)]

        assert [len(report.touched) for report in reports] == [24, 24, 12]
        assert [report.is_full for report in reports] == [True, True, False]

    def test_collapse_fires_one_and_tells_of_the_others(self, at):
        hourly(catch_up="collapse")

        at(self.AWAY)

        assert slots() == ["15 12:00"]
        missed = ActiveJob.objects.get().meta["missed"]
        assert missed["slots"] == [f"2026-06-15T{hour:02}:00:00+00:00" for hour in range(1, 12)]
        assert (missed["count"], missed["is_all"]) == (11, True)

    def test_collapse_tells_of_the_latest_of_many(self, at):
        hourly(catch_up="collapse", catch_up_limit=2)

        at(self.AWAY)

        missed = ActiveJob.objects.get().meta["missed"]
        assert missed["slots"] == ["2026-06-15T10:00:00+00:00", "2026-06-15T11:00:00+00:00"]
        assert (missed["count"], missed["is_all"]) == (2, False)

    def test_a_slot_on_time_stands_for_the_missed_ones(self, at):
        hourly(catch_up="collapse")

        at(3 * HOUR + 10 * SECOND)

        assert slots() == ["15 03:00"]
        assert ActiveJob.objects.get().meta["missed"]["count"] == 2

    @pytest.mark.parametrize("catch_up", ["skip", "catch_up", "collapse"])
    def test_a_slot_that_is_only_a_little_late_was_not_missed(self, at, catch_up):
        """Changing the leader takes some seconds, in which no slot of any schedule is lost."""
        hourly(cron_expression="* * * * * *", catch_up=catch_up)

        at(20 * SECOND)

        assert len(slots()) == 20
        assert not ActiveJob.objects.filter(meta__has_key="missed").exists()

    def test_thousands_of_missed_slots_are_not_gone_through(self, at):
        hourly(cron_expression="* * * * * *", active_since=MIDNIGHT - timedelta(days=900))

        at(timedelta(days=800))

        assert len(slots()) == 60


class TestOverlap:
    """The next slot comes while the last job is unfinished."""

    @pytest.fixture
    def finish(self, connection):
        """Return a function that finishes the jobs there are."""
        return lambda: complete(connection, *claim_jobs(connection).jobs)

    def test_allow_fires_it(self, at):
        hourly()
        at(HOUR)
        at(2 * HOUR)

        assert slots() == ["15 01:00", "15 02:00"]

    def test_skip_waits_for_the_next_slot(self, connection, at, finish):
        hourly(overlap="skip")
        at(HOUR)
        at(2 * HOUR)
        assert slots() == ["15 01:00"]
        finish()
        at(2 * HOUR + MINUTE)
        assert slots() == []

        at(3 * HOUR)

        assert slots() == ["15 03:00"]
        assert records(connection) == [("01:00", "slot"), ("02:00", "skipped"), ("03:00", "slot")]
        assert check_invariants(connection) == []

    def test_queue_one_fires_the_latest_when_the_job_has_finished(self, connection, at, finish):
        schedule = hourly(overlap="queue_one")
        at(HOUR)
        at(2 * HOUR)
        at(3 * HOUR)
        assert slots() == ["15 01:00"]
        schedule.refresh_from_db()
        assert schedule.queued_slot_at == MIDNIGHT + 3 * HOUR
        finish()

        at(3 * HOUR + 20 * MINUTE)

        assert slots() == ["15 03:00"]
        schedule.refresh_from_db()
        assert schedule.queued_slot_at is None
        assert records(connection) == [("01:00", "slot"), ("02:00", "skipped"), ("03:00", "slot")]

    def test_a_queued_slot_and_a_due_one_do_not_overlap_either(self, at, finish):
        hourly(overlap="queue_one")
        at(HOUR)
        at(2 * HOUR)
        finish()

        at(3 * HOUR)

        assert slots() == ["15 02:00"]
        finish()
        at(3 * HOUR + MINUTE)
        assert slots() == ["15 03:00"]

    def test_queued_slots_keep_no_due_one_from_its_turn(self, at):
        for _ in range(3):
            hourly(overlap="queue_one")
        at(HOUR)
        at(2 * HOUR)
        hourly()

        report = at(2 * HOUR + MINUTE, batch_size=2)

        assert (len(report.touched), report.is_full) == (1, False)

    def test_a_job_that_backs_off_is_unfinished(self, at):
        schedule = hourly(overlap="skip")
        failed = factories.failed_job()
        CronSchedule.objects.update(last_job_id=failed.id)

        assert at(HOUR).touched == []
        schedule.refresh_from_db()
        assert schedule.last_job_id == failed.id


def test_jitter_delays_the_job_and_not_the_slot(connection, at):
    for _ in range(20):
        hourly(jitter=10 * MINUTE)

    at(HOUR, batch_size=100)

    delays = [job.scheduled_at - MIDNIGHT - HOUR for job in ActiveJob.objects.all()]
    assert all(timedelta(0) <= delay < 10 * MINUTE for delay in delays)
    assert len(set(delays)) == 20
    assert max(delays) > 5 * MINUTE
    assert set(ActiveJob.objects.values_list("status", flat=True)) == {"scheduled"}
    assert set(records(connection)) == {("01:00", "slot")}


def test_a_schedule_that_can_never_run_stops_no_other(at, caplog):
    bad = hourly(cron_expression="0 0 30 2 *", name="thirtieth of February")
    hourly()

    assert len(at(HOUR).touched) == 1

    bad.refresh_from_db()
    assert bad.problem.startswith("The cron expression '0 0 30 2 *' is invalid")
    assert "The schedule 'thirtieth of February' cannot be fired" in caplog.text


def test_a_schedule_that_could_not_run_for_a_while_catches_up(at):
    """A process that lacks the zones' data is no reason to stop the schedule."""
    bad = hourly(timezone="Mars/Olympus", catch_up="catch_up")
    at(HOUR)
    CronSchedule.objects.update(timezone="UTC")

    assert at(HOUR + 9 * MINUTE).touched == []
    at(2 * HOUR)

    assert slots() == ["15 01:00", "15 02:00"]
    bad.refresh_from_db()
    assert bad.problem == ""


def test_all_slots_are_recorded_on_time_while_all_workers_are_busy(at):
    """Nobody claims a job: the schedule does not wait for anyone."""
    hourly(cron_expression="* * * * *")

    for minute in range(1, 6):
        at(minute * MINUTE + SECOND)

    assert slots() == [f"15 00:0{minute}" for minute in range(1, 6)]


def test_the_records_of_slots_are_kept_as_long_as_history(connection, at):
    hourly()
    at(HOUR)

    def prune(days):
        pruner = SlotPruner(retention=days and timedelta(days=days))
        return len(pruner.run_once(connection, batch_size=10).touched)

    connection.execute("UPDATE cron_runs SET recorded_at = now() - interval '5 days'")
    assert [prune(None), prune(6), prune(4), prune(4)] == [0, 0, 1, 0]


@pytest.mark.parametrize(
    ("use_tz", "zone", "session_zone"),
    [
        (True, "UTC", "Australia/Lord_Howe"),
        (False, "America/New_York", "UTC"),
        (False, "Asia/Kathmandu", "America/New_York"),
    ],
)
class TestChangedClocks:
    """Whatever zones the project, the server and the schedule have."""

    @pytest.fixture(autouse=True)
    def zones(self, settings, connection, session_zone, use_tz, zone):
        settings.USE_TZ, settings.TIME_ZONE = use_tz, zone
        connection.execute(f"SET TimeZone = '{session_zone}'")

    def fired_by(self, connection, scheduler, expression, start, hours):
        """Run the scheduler every quarter of an hour, and return the slots in UTC."""
        begin = datetime.fromisoformat(start).replace(tzinfo=UTC)
        connection.execute(
            "INSERT INTO cron_schedules (name, job_name, cron_expression, timezone, active_since) "
            "VALUES ('s', 'tests.noop', %s, 'America/New_York', %s)",
            [expression, begin],
        )
        for minutes in range(0, hours * 60, 15):
            now = begin + timedelta(minutes=minutes)
            scheduler.run_once(connection, batch_size=10, now=now)
        rows = connection.execute(
            "SELECT to_char(scheduled_at AT TIME ZONE 'UTC', 'MM-DD HH24:MI') FROM jobs_active "
            "ORDER BY scheduled_at"
        )
        return [text for (text,) in rows]

    def test_in_spring_there_is_one_slot_a_day(self, connection, scheduler):
        found = self.fired_by(connection, scheduler, "30 2 * * *", "2026-03-07T12:00", 48)

        # 02:30 does not exist: it is due at 03:00 daylight time. The next day is normal.
        assert found == ["03-08 07:00", "03-09 06:30"]

    def test_in_autumn_there_is_one_slot_a_day(self, connection, scheduler):
        found = self.fired_by(connection, scheduler, "30 1 * * *", "2026-10-31T12:00", 48)

        assert found == ["11-01 05:30", "11-02 06:30"]

    def test_in_autumn_an_hourly_schedule_goes_on(self, connection, scheduler):
        found = self.fired_by(connection, scheduler, "30 * * * *", "2026-11-01T05:00", 3)

        assert found == ["11-01 05:30", "11-01 06:30", "11-01 07:30"]
