"""Pages to order, and to see what became of orders and their jobs."""

from __future__ import annotations

from collections.abc import Iterable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from django_pgjobs.models import ActiveJob, CompletedJob

from .checkout import check_out
from .forms import OrderForm
from .jobs import export_orders
from .models import Merchant, Order

#: Orders on the page that lists them.
SHOWN = 100


@require_GET
def list_orders(request: HttpRequest) -> HttpResponse:
    """Show the latest orders, each with the state of its jobs."""
    latest = Order.objects.select_related("customer", "merchant").prefetch_related("lines")
    rows = _with_jobs(latest[:SHOWN])
    merchants = Merchant.objects.all()
    return render(request, "shop/orders.html", {"rows": rows, "merchants": merchants})


@require_GET
def show_order(request: HttpRequest, order_id: int) -> HttpResponse:
    """Show one order."""
    order = get_object_or_404(Order.objects.select_related("customer", "merchant"), pk=order_id)
    return render(request, "shop/order.html", {"row": _with_jobs([order])[0]})


@require_http_methods(["GET", "POST"])
def place_order(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the form of an order, or place one."""
    merchant = get_object_or_404(Merchant, slug=slug)
    form = OrderForm(request.POST or None, merchant=merchant)
    if request.method == "POST" and form.is_valid():
        return redirect(check_out(merchant, form.cleaned_data, form.basket))
    status = 400 if form.errors else 200
    context = {"form": form, "merchant": merchant}
    return render(request, "shop/place_order.html", context, status=status)


@require_POST
def export(request: HttpRequest, slug: str) -> HttpResponse:
    """Ask for a merchant's orders as CSV."""
    merchant = get_object_or_404(Merchant, slug=slug)
    export_orders.using(tenant=merchant.pk).enqueue(merchant_id=merchant.pk)
    return redirect("orders")


def _with_jobs(
    orders: Iterable[Order],
) -> list[dict[str, Order | ActiveJob | CompletedJob | None]]:
    """Return each order with the jobs of its receipt and its shipment."""
    found = list(orders)
    ids = [pk for order in found for pk in (order.receipt_job, order.shipment_job)]
    jobs: dict[int | None, ActiveJob | CompletedJob] = {
        **ActiveJob.objects.in_bulk(ids),
        **CompletedJob.objects.in_bulk(ids),
    }
    return [
        {
            "order": order,
            "receipt": jobs.get(order.receipt_job),
            "shipment": jobs.get(order.shipment_job),
        }
        for order in found
    ]
