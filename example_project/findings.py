"""What the demo left in the database and in the mailboxes, and whether it is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from django.conf import settings
from django.db.models import Count, DecimalField, F, Sum

from django_pgjobs.models import ActiveJob, CompletedJob, CronSchedule, JobAttempt
from django_pgjobs.states import JobStatus, Outcome

from .mail import MailCatcher
from .shop.catalogue import read_lines
from .shop.jobs import (
    SERVED,
    ask_for_review,
    book_shipment,
    count_sold,
    daily_report,
    export_orders,
    send_receipt,
)
from .shop.models import Export, Merchant, Order, OrderLine, Product

_REFUSED = "SMTPRecipientsRefused"


@dataclass(frozen=True, slots=True)
class Check:
    """A statement about the demo, and what speaks against it."""

    statement: str
    problem: str

    @property
    def holds(self) -> bool:
        """True when nothing speaks against it."""
        return not self.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Everything that the report shows, in tables of text and numbers."""

    merchants: list[tuple[object, ...]]
    mail: list[tuple[object, ...]]
    jobs: list[tuple[object, ...]]
    attempts: list[tuple[object, ...]]
    dead: list[tuple[object, ...]]
    schedules: list[tuple[object, ...]]
    checks: list[Check] = field(default_factory=list)


def collect(catcher: MailCatcher, orders: Path, *, answered: int = 0, page: str = "") -> Findings:
    """Read what there is, and check it.

    Args:
        catcher: the mail server.
        orders: the CSV of the orders.
        answered: how many orders the website confirmed.
        page: its list of orders.
    """
    receipts = Counter(str(m["X-Order"]) for m in catcher.messages if m["X-Order"])
    wanted = len({line["order"] for line in read_lines(orders)})
    return Findings(
        merchants=list(_merchants(receipts)),
        mail=list(_mail(catcher, receipts)),
        jobs=list(_jobs()),
        attempts=list(_attempts()),
        dead=list(_dead()),
        schedules=list(_schedules()),
        checks=[
            _check_orders(wanted, answered),
            _check_page(page),
            _check_receipts(receipts),
            _check_retries(catcher),
            _check_dead(),
            _check_lost(),
            _check_delays(),
            _check_counts(),
            _check_schedule(catcher),
            _check_unfinished(),
        ],
    )


def _merchants(receipts: Counter[str]) -> Iterator[tuple[object, ...]]:
    for merchant in Merchant.objects.annotate(placed=Count("orders")).order_by("-placed"):
        lines = OrderLine.objects.filter(order__merchant=merchant)
        turnover = lines.aggregate(
            turnover=Sum(F("quantity") * F("unit_price"), output_field=DecimalField())
        )["turnover"]
        delivered = sum(receipts[str(order.pk)] for order in merchant.orders.all())
        yield (
            merchant.name,
            merchant.pk,
            merchant.placed,
            lines.count(),
            f"{turnover or Decimal(0):,.2f} €",
            delivered,
        )


def _mail(catcher: MailCatcher, receipts: Counter[str]) -> Iterator[tuple[object, ...]]:
    reviews = sum("review-" in str(m["Message-ID"]) for m in catcher.messages)
    yield "receipts delivered", receipts.total()
    yield "questions how it was", reviews
    yield "reports", len(catcher.messages) - receipts.total() - reviews
    yield "deliveries refused with 451", len(catcher.refused)


def _jobs() -> Iterator[tuple[object, ...]]:
    counts: Counter[tuple[str, str]] = Counter()
    for table in (ActiveJob, CompletedJob):
        found = table.objects.values_list("job_name", "status").annotate(count=Count("id"))
        counts.update({(name, status): count for name, status, count in found})
    finals = (JobStatus.COMPLETED, JobStatus.DEAD, JobStatus.CANCELLED)
    for name in sorted({name for name, _ in counts}):
        of_job = Counter({status: n for (job, status), n in counts.items() if job == name})
        finished = [of_job[status.value] for status in finals]
        yield _short(name), *finished, of_job.total() - sum(finished)


def _attempts() -> Iterator[tuple[object, ...]]:
    groups = JobAttempt.objects.values_list("job_name", "outcome", "error_class")
    for name, outcome, error, count in groups.annotate(count=Count("job_id")).order_by(
        "job_name", "outcome"
    ):
        yield _short(name), Outcome(outcome).label, (error or "").rpartition(".")[2], count


def _dead() -> Iterator[tuple[object, ...]]:
    for job in CompletedJob.objects.filter(status=JobStatus.DEAD).order_by("id"):
        yield job.id, _short(job.job_name), f"{job.attempt} of {job.max_attempts}", _reason(job)


def _schedules() -> Iterator[tuple[object, ...]]:
    for schedule in CronSchedule.objects.order_by("name"):
        runs = CompletedJob.objects.of_job(schedule.job_name).count()
        cron = f"{schedule.cron_expression} ({schedule.timezone})"
        last = f"{schedule.last_run_at:%d %b %H:%M} UTC" if schedule.last_run_at else "–"
        yield _short(schedule.name), cron, last, runs


def _check_orders(wanted: int, answered: int) -> Check:
    found = Order.objects.count()
    problem = f"{answered} were confirmed and {found} exist." * (not wanted == answered == found)
    return Check(f"All {wanted} orders of the CSV were placed over HTTP", problem)


def _check_page(page: str) -> Check:
    problem = "" if 'class="state ' in page else "It shows none."
    return Check("The page of orders shows the states of their jobs", problem)


def _check_receipts(receipts: Counter[str]) -> Check:
    orders = [str(pk) for pk in Order.objects.values_list("pk", flat=True)]
    missing = [pk for pk in orders if receipts[pk] == 0]
    repeated = [pk for pk, count in receipts.items() if count > 1]
    problem = f"Missing: {_some(missing)}. " * bool(missing)
    problem += f"Repeated: {_some(repeated)}." * bool(repeated)
    return Check(f"Exactly one receipt was delivered for each of {len(orders)} orders", problem)


def _check_retries(catcher: MailCatcher) -> Check:
    failed = JobAttempt.objects.filter(outcome=Outcome.FAILED, error_class__endswith=_REFUSED)
    mailing = CompletedJob.objects.filter(
        job_name__in=[send_receipt.name, ask_for_review.name], status=JobStatus.COMPLETED
    )
    delivered = mailing.filter(id__in=failed.values("job_id"), attempt__gt=1).count()
    counts = (len(catcher.refused), failed.count(), delivered)
    problem = (
        "" if len(set(counts)) == 1 and counts[0] else "Refused, failed, retried: %d, %d, %d."
    )
    return Check(
        f"Each of {len(catcher.refused)} refused deliveries failed an attempt and was tried again",
        problem and problem % counts,
    )


def _check_dead() -> Check:
    unserved = Order.objects.exclude(country__in=SERVED)
    expected = set(unserved.values_list("shipment_job", flat=True))
    dead = CompletedJob.objects.filter(status=JobStatus.DEAD)
    found = set(dead.of_job(book_shipment.name).values_list("id", flat=True))
    right = expected == found and len(found) == dead.count() and found
    problem = "" if right else f"Dead are {_some(dead.values_list('id', flat=True))}."
    return Check("Dead are exactly the shipments to where no carrier goes", problem)


def _check_lost() -> Check:
    lost = list(JobAttempt.objects.filter(outcome=Outcome.LOST))
    exports = CompletedJob.objects.of_job(export_orders.name).filter(status=JobStatus.COMPLETED)
    again = [
        job
        for job in exports
        if [attempt.job_id for attempt in lost] == [job.id]
        and job.attempt == 2
        and job.locked_by != lost[0].worker_id
    ]
    problem = f"Attempts lost: {len(lost)}. Exports made again: {len(again)}."
    right = len(again) == exports.count() == Export.objects.count() == 1
    return Check(
        "The export of the killed worker was made again by another", problem * (not right)
    )


def _check_delays() -> Check:
    jobs = CompletedJob.objects.of_job(ask_for_review.name)
    early = [j.id for j in jobs if j.started_at - j.created_at < settings.SHOP_REVIEW_DELAY]
    problem = f"Early: {_some(early)}." if early else "" if jobs else "None ran."
    return Check(f"No question came before its delay of {settings.SHOP_REVIEW_DELAY}", problem)


def _check_counts() -> Check:
    sold = dict(Product.objects.values_list("sku", "sold"))
    totals = OrderLine.objects.values_list("product__sku").annotate(total=Sum("quantity"))
    wrong = [sku for sku, total in totals if sold[sku] != total]
    has_run = CompletedJob.objects.of_job(count_sold.name).exists()
    problem = f"Wrong: {_some(wrong)}." if wrong else "" if has_run else "None ran."
    return Check("The async handler counted what was sold of each product", problem)


def _check_schedule(catcher: MailCatcher) -> Check:
    reports = [m for m in catcher.messages if str(m["To"]) == "reports@shop.example"]
    fired = CronSchedule.objects.filter(job_name=daily_report.name, last_run_at__isnull=False)
    runs = CompletedJob.objects.of_job(daily_report.name).count()
    right = runs == len(reports) >= 1 and fired.exists()
    problem = f"Jobs: {runs}. Reports: {len(reports)}."
    return Check("The schedule fired, and its report came", problem * (not right))


def _check_unfinished() -> Check:
    ids = ActiveJob.objects.values_list("id", flat=True)
    return Check("No job is left unfinished", f"Left: {_some(ids)}." * bool(ids))


def _reason(job: CompletedJob) -> str:
    return f"{(job.error_class or '').rpartition('.')[2]}: {job.error_message}"


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _some(values: object) -> str:
    listed = [str(value) for value in values]  # type: ignore[attr-defined]
    return ", ".join(listed[:10]) + (f" and {len(listed) - 10} more" * (len(listed) > 10))
