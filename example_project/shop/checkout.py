"""Place orders, and enqueue what follows from them in the same transaction."""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings
from django.db import transaction

from .jobs import ask_for_review, book_shipment, count_sold, send_receipt
from .models import Customer, Merchant, Order, OrderLine, Product


def check_out(
    merchant: Merchant, address: Mapping[str, str], basket: Mapping[Product, int]
) -> Order:
    """Place an order. Order and jobs exist together, or not at all.

    Args:
        merchant: of all products in the basket.
        address: name, email, city and country of the customer.
        basket: how many of which products; at least one.
    """
    with transaction.atomic():
        customer, _ = Customer.objects.get_or_create(
            email=address["email"], defaults={"name": address["name"]}
        )
        order = Order.objects.create(
            merchant=merchant, customer=customer, city=address["city"], country=address["country"]
        )
        OrderLine.objects.bulk_create(
            OrderLine(order=order, product=product, quantity=quantity, unit_price=product.price)
            for product, quantity in basket.items()
        )
        _enqueue_what_follows(order, basket)
    return order


def _enqueue_what_follows(order: Order, basket: Mapping[Product, int]) -> None:
    tenant = order.merchant_id
    receipt = send_receipt.using(tenant=tenant, tags=["order"]).enqueue(order_id=order.pk)
    shipment = book_shipment.using(tenant=tenant).enqueue(order_id=order.pk)
    count_sold.using(tenant=tenant).enqueue(product_ids=[product.pk for product in basket])
    # However much somebody orders in a week, he is asked once.
    ask_for_review.using(
        tenant=tenant,
        delay=settings.SHOP_REVIEW_DELAY,
        idempotency_key=f"customer-{order.customer_id}",
    ).enqueue(order_id=order.pk)
    order.receipt_job, order.shipment_job = receipt.id, shipment.id
    order.save(update_fields=["receipt_job", "shipment_job"])
