"""The jobs of the shop. Each may run twice, and then does no harm the second time."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from time import monotonic, sleep

from django.conf import settings
from django.core.mail import EmailMessage
from django.db.models import Sum
from django.template.loader import render_to_string
from django.utils import timezone

from django_pgjobs import Cancel, JobContext, job

from .models import Export, Merchant, Order, OrderLine, Product

#: Countries that a carrier serves.
SERVED = frozenset({"AT", "CH", "DE", "DK", "ES", "FI", "FR", "IT", "JP", "MX", "NO", "PL", "SE"})


class NotDeliverable(Exception):
    """No carrier goes there."""


@job(queue="email", max_attempts=5, timeout=timedelta(seconds=30))
def send_receipt(context: JobContext, *, order_id: int) -> None:
    """Mail a receipt. When the mail server refuses, the job fails and is tried again."""
    order = Order.objects.select_related("customer", "merchant").get(pk=order_id)
    body = render_to_string("shop/receipt.txt", {"order": order})
    EmailMessage(
        subject=f"Your order {order.pk} at {order.merchant.name}",
        body=body,
        to=[order.customer.email],
        reply_to=[order.merchant.email],
        # Two messages with one Message-ID are one message, so that a mail server or a mailbox
        # can drop the copy of a receipt that was sent twice.
        headers={"Message-ID": f"<receipt-{order.pk}@shop.example>", "X-Order": str(order.pk)},
    ).send()


@job(max_attempts=2)
def book_shipment(context: JobContext, *, order_id: int) -> str:
    """Book a carrier. An address that nobody serves stays so: the job ends dead."""
    order = Order.objects.get(pk=order_id)
    if order.country not in SERVED:
        raise NotDeliverable(f"No carrier delivers to {order.city}, {order.country}.")
    # The carrier's idempotency key: asked twice, it answers with the first booking.
    order.shipment = f"PKG-{context.id:06}"
    order.save(update_fields=["shipment"])
    return order.shipment


@job
async def count_sold(*, product_ids: list[int]) -> None:
    """Count what was sold of some products: anew, so that counting twice changes nothing."""
    for product_id in product_ids:
        lines = OrderLine.objects.filter(product_id=product_id)
        sold = (await lines.aaggregate(sold=Sum("quantity")))["sold"] or 0
        await Product.objects.filter(pk=product_id).aupdate(sold=sold)


@job(queue="email", max_attempts=5)
def ask_for_review(*, order_id: int) -> None:
    """Ask a customer how it was."""
    order = Order.objects.select_related("customer", "merchant").get(pk=order_id)
    EmailMessage(
        subject=f"How did you like {order.merchant.name}?",
        body=f"Dear {order.customer.name},\n\nwhat do you think of your order {order.pk}?\n",
        to=[order.customer.email],
        headers={"Message-ID": f"<review-{order.pk}@shop.example>"},
    ).send()


@job(cron="0 6 * * *", timezone="Europe/Berlin")
def daily_report() -> dict[str, int]:
    """Mail the numbers of the day, every morning."""
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    orders = Order.objects.filter(placed_at__gte=midnight)
    counts = {m.name: orders.filter(merchant=m).count() for m in Merchant.objects.all()}
    EmailMessage(
        subject=f"Orders of {midnight:%d %B %Y}",
        body="\n".join(f"{count:5} {name}" for name, count in counts.items()),
        to=["reports@shop.example"],
    ).send()
    return counts


@job(queue="exports")
def export_orders(context: JobContext, *, merchant_id: int) -> int:
    """Write all orders of a merchant as CSV, and return how many lines there are."""
    lines = OrderLine.objects.filter(order__merchant_id=merchant_id).order_by("pk")
    content = io.StringIO()
    writer = csv.writer(content)
    for line in lines.select_related("order", "product"):
        writer.writerow([line.order_id, line.product.sku, line.quantity, line.unit_price])
    _take_time(context)
    Export.objects.update_or_create(
        job_id=context.id, defaults={"merchant_id": merchant_id, "content": content.getvalue()}
    )
    return len(lines)


def _take_time(context: JobContext) -> None:
    end = monotonic() + settings.SHOP_EXPORT_DURATION.total_seconds()
    while monotonic() < end:
        if context.is_cancelled:
            raise Cancel("The export was called off.")
        sleep(0.1)
