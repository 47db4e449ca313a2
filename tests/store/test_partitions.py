"""Days of history: made ahead, filled, listed and dropped."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

import psycopg
import pytest

from django_pgjobs.models import CompletedJob
from django_pgjobs.store.partitions import (
    PARTITIONED,
    create_partition,
    drop_partition,
    list_partitions,
)
from tests import factories

from .calls import complete

DAY = date(2020, 2, 29)
SHORT = timedelta(milliseconds=200)
EVERY_TABLE = pytest.mark.parametrize("table", sorted(PARTITIONED))


def create(connection, table="jobs_completed", day=DAY):
    return create_partition(connection, table=table, day=day, lock_timeout=SHORT)


def counts(connection, *tables):
    return [connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables]


@EVERY_TABLE
def test_a_partition_is_one_day_of_utc(connection, table):
    connection.execute("SET TimeZone = 'America/New_York'")

    create(connection, table)

    (partition,) = list_partitions(connection, table=table)
    assert partition.starts_at == datetime.combine(DAY, time(), UTC)
    assert partition.ends_at == datetime.combine(DAY + timedelta(days=1), time(), UTC)
    assert partition.name == f"public.{table}_20200229"


@EVERY_TABLE
def test_a_partition_is_like_its_parent(connection, table):
    name = create(connection, table)

    indexes = "SELECT count(*) FROM pg_index WHERE indrelid = %s::regclass"
    checks = (
        "SELECT array_agg(conname ORDER BY conname) FROM pg_constraint "
        "WHERE conrelid = %s::regclass AND contype = 'c'"
    )
    for query in (indexes, checks):
        assert (
            connection.execute(query, [name]).fetchone()
            == connection.execute(query, [table]).fetchone()
        )


def test_neighbouring_days_meet_without_a_gap(connection):
    for offset in range(3):
        create(connection, day=DAY + timedelta(days=offset))

    partitions = list_partitions(connection, table="jobs_completed")

    assert [partition.ends_at for partition in partitions[:-1]] == [
        partition.starts_at for partition in partitions[1:]
    ]


def test_rows_of_the_day_move_out_of_default(connection):
    noon = datetime.combine(DAY, time(12), UTC)
    for at in (noon, noon + timedelta(days=1)):
        job = factories.running_job()
        complete(connection, job, now=at)
    assert counts(connection, "jobs_completed_default") == [2]

    name = create(connection)

    assert counts(connection, name, "jobs_completed_default") == [1, 1]
    assert CompletedJob.objects.count() == 2


def test_completions_go_to_the_partition_of_their_day(connection):
    name = create(connection, day=factories.server_now().astimezone(UTC).date())

    complete(connection, factories.running_job())

    assert counts(connection, name, "jobs_completed_default") == [1, 0]


def test_a_partition_is_made_while_others_read_and_write(connect):
    reader, writer, maker = connect(), connect(), connect()
    job = factories.running_job()
    with reader.transaction():
        reader.execute("SELECT count(*) FROM jobs_active")
        create(maker)

        assert complete(writer, job) == [job.id]


def test_a_reader_of_default_is_waited_for_only_so_long(connect):
    reader, maker = connect(), connect()
    with reader.transaction():
        reader.execute("SELECT count(*) FROM jobs_completed")

        with pytest.raises(psycopg.errors.LockNotAvailable):
            create(maker)

    assert list_partitions(maker, table="jobs_completed") == []
    create(maker)


def test_a_detached_table_of_that_name_is_an_error(connection):
    name = create(connection)
    connection.execute(f"ALTER TABLE jobs_completed DETACH PARTITION {name}")

    with pytest.raises(psycopg.errors.DuplicateTable):
        create(connection)


def test_a_partition_made_by_hand_is_listed_under_its_quoted_name(connection):
    connection.execute(
        'CREATE TABLE "History of 1999" PARTITION OF jobs_completed '
        "FOR VALUES FROM (MINVALUE) TO ('1999-12-31 00:00+00')"
    )
    try:
        (partition,) = list_partitions(connection, table="jobs_completed")

        assert partition.name == 'public."History of 1999"'
        assert partition.starts_at is None
        assert partition.ends_at == datetime(1999, 12, 31, tzinfo=UTC)
    finally:
        connection.execute('DROP TABLE "History of 1999"')


def test_a_partition_is_dropped_with_its_rows(connection):
    create(connection)
    (partition,) = list_partitions(connection, table="jobs_completed")

    drop_partition(connection, partition, lock_timeout=SHORT)

    assert list_partitions(connection, table="jobs_completed") == []


def test_a_reader_keeps_a_partition_and_completions_go_on(connect):
    reader, dropper, writer = connect(), connect(), connect()
    create(dropper)
    (partition,) = list_partitions(dropper, table="jobs_completed")
    job = factories.running_job()
    with reader.transaction():
        reader.execute("SELECT count(*) FROM jobs_completed")

        with pytest.raises(psycopg.errors.LockNotAvailable):
            drop_partition(dropper, partition, lock_timeout=SHORT)

        assert complete(writer, job) == [job.id]
    assert list_partitions(dropper, table="jobs_completed") == [partition]
