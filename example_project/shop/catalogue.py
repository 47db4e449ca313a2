"""Fill the shop with the merchants and products of a file of orders."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from django.db import transaction

from .models import Merchant, Product


def read_lines(path: Path) -> Iterator[dict[str, str]]:
    """Yield the lines of a CSV of orders, each by the names of its columns."""
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def load(path: Path) -> None:
    """Make the merchants and products that a CSV of orders mentions, if they are missing."""
    with transaction.atomic():
        for line in read_lines(path):
            slug = line["merchant"]
            merchant, _ = Merchant.objects.get_or_create(
                slug=slug,
                defaults={"name": line["merchant_name"], "email": f"{slug}@shop.example"},
            )
            Product.objects.get_or_create(
                sku=line["sku"],
                defaults={
                    "merchant": merchant,
                    "name": line["product"],
                    "price": Decimal(line["price"]),
                },
            )
