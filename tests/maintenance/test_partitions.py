"""Partitions ahead, and dropped past their retention."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from django_pgjobs.maintenance.partitions import Partitioner, missing_days, past_retention
from django_pgjobs.models import CompletedJob
from django_pgjobs.store.partitions import Partition, create_partition, list_partitions
from tests import factories

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def partition_of(day: date) -> Partition:
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return Partition("x", start, start + DAY)


def partitioner(days_ahead: int = 7, retention: timedelta | None = None) -> Partitioner:
    return Partitioner(days_ahead=days_ahead, retention=retention)


def rows_of_default(connection) -> int:
    return connection.execute("SELECT count(*) FROM jobs_completed_default").fetchone()[0]


def test_today_and_the_days_ahead_are_missing():
    assert missing_days([], NOON, 2) == [date(2026, 3, 10), date(2026, 3, 11), date(2026, 3, 12)]


def test_days_that_are_covered_are_not_missing():
    week = Partition("w", datetime(2026, 3, 9, tzinfo=UTC), datetime(2026, 3, 12, tzinfo=UTC))

    assert missing_days([week], NOON, 2) == [date(2026, 3, 12)]


def test_the_day_is_that_of_utc():
    auckland = NOON.astimezone(datetime.fromisoformat("2026-03-10T00:00+13:00").tzinfo)

    assert missing_days([], auckland, 0) == [date(2026, 3, 10)]


def test_retention_counts_from_the_end_of_a_day():
    days = [partition_of(date(2026, 3, day)) for day in (7, 8, 9, 10)]

    assert past_retention(days, NOON, DAY) == days[:2]
    assert past_retention(days, NOON, timedelta(0)) == days[:3]
    assert past_retention(days, NOON, None) == []


def test_a_new_site_gets_its_partitions(connection):
    report = partitioner().run_once(connection, batch_size=10)

    assert len(report.touched) == 16
    assert len(list_partitions(connection, table="jobs_completed")) == 8
    assert partitioner().run_once(connection, batch_size=10).touched == []


def test_a_completion_without_a_partition_is_kept_and_moved_to_its_partition(connection):
    job = factories.completed_job()
    assert rows_of_default(connection) == 1

    partitioner(days_ahead=0).run_once(connection, batch_size=10)

    assert rows_of_default(connection) == 0
    assert CompletedJob.objects.filter(pk=job.id).exists()


def test_old_partitions_are_dropped_with_their_rows(connection):
    old = factories.server_now() - timedelta(days=40)
    create_partition(connection, table="jobs_completed", day=old.date(), lock_timeout=DAY)
    gone = factories.completed_job(completed_at=old)
    kept = factories.completed_job()

    report = partitioner(retention=timedelta(days=30)).run_once(connection, batch_size=10)

    assert any(f"jobs_completed_{old:%Y%m%d}" in name for name in report.touched)
    assert not CompletedJob.objects.filter(pk=gone.id).exists()
    assert CompletedJob.objects.filter(pk=kept.id).exists()


def test_a_reader_in_the_way_puts_off_the_drop(connect, connection):
    old = factories.server_now() - timedelta(days=40)
    create_partition(connection, table="jobs_completed", day=old.date(), lock_timeout=DAY)
    keep = partitioner(retention=timedelta(days=30))
    keep.run_once(connection, batch_size=10)
    create_partition(connection, table="jobs_completed", day=old.date(), lock_timeout=DAY)
    reader = connect()
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM jobs_completed")

    assert keep.run_once(connection, batch_size=10).touched == []
    reader.execute("COMMIT")

    assert len(keep.run_once(connection, batch_size=10).touched) == 1


def test_a_table_in_the_way_is_named_and_the_others_are_made(connection, caplog):
    today = factories.server_now().astimezone(UTC).date()
    name = f"jobs_completed_{today:%Y%m%d}"
    connection.execute(f"CREATE TABLE {name} (id bigint)")
    try:
        report = partitioner(days_ahead=0).run_once(connection, batch_size=10)
    finally:
        connection.execute(f"DROP TABLE {name}")

    assert report.touched == [f"job_attempts_{today:%Y%m%d}"]
    assert f'relation "{name}" already exists' in caplog.text


def test_bounds_do_not_depend_on_the_session_time_zone(connect):
    connection = connect(options="-c timezone=America/New_York")

    partitioner(days_ahead=1).run_once(connection, batch_size=10)

    starts = [
        p.starts_at.astimezone(UTC) for p in list_partitions(connection, table="job_attempts")
    ]
    assert {start.hour for start in starts} == {0}
