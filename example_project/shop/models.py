"""Merchants, what they sell, and what was ordered."""

from __future__ import annotations

from decimal import Decimal

from django.db import models
from django.urls import reverse


class Merchant(models.Model):
    """Somebody who sells here: a tenant, whose key is the ``tenant`` of its jobs."""

    slug = models.SlugField(unique=True)
    name = models.CharField(max_length=100)
    email = models.EmailField()

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("place-order", args=[self.slug])


class Product(models.Model):
    """Something that a merchant sells."""

    merchant = models.ForeignKey(Merchant, models.CASCADE, related_name="products")
    sku = models.CharField(max_length=20, unique=True)
    name = models.CharField(max_length=100)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    sold = models.PositiveIntegerField(default=0, editable=False)

    class Meta:
        ordering = ("sku",)

    def __str__(self) -> str:
        return self.name


class Customer(models.Model):
    """Somebody who buys."""

    name = models.CharField(max_length=100)
    email = models.EmailField(unique=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Order(models.Model):
    """What a customer ordered from a merchant at one time."""

    merchant = models.ForeignKey(Merchant, models.PROTECT, related_name="orders")
    customer = models.ForeignKey(Customer, models.PROTECT, related_name="orders")
    city = models.CharField(max_length=100)
    country = models.CharField(max_length=2)
    placed_at = models.DateTimeField(auto_now_add=True)
    shipment = models.CharField(max_length=40, blank=True)
    # Jobs move from one table to another when they finish, so these are no foreign keys.
    receipt_job = models.BigIntegerField(null=True, editable=False)
    shipment_job = models.BigIntegerField(null=True, editable=False)

    class Meta:
        ordering = ("-pk",)

    def __str__(self) -> str:
        return f"Order {self.pk}"

    def get_absolute_url(self) -> str:
        return reverse("order", args=[self.pk])

    @property
    def total(self) -> Decimal:
        """What the customer pays."""
        return sum((line.total for line in self.lines.all()), Decimal("0.00"))


class OrderLine(models.Model):
    """Some of one product, at the price it had."""

    order = models.ForeignKey(Order, models.CASCADE, related_name="lines")
    product = models.ForeignKey(Product, models.PROTECT, related_name="lines")
    quantity = models.PositiveSmallIntegerField()
    unit_price = models.DecimalField(max_digits=8, decimal_places=2)

    def __str__(self) -> str:
        return f"{self.quantity} × {self.product}"

    @property
    def total(self) -> Decimal:
        """The price of all of them."""
        return self.quantity * self.unit_price


class Export(models.Model):
    """A merchant's orders as CSV, made by a job."""

    # An export that runs twice replaces its own result.
    job_id = models.BigIntegerField(primary_key=True)
    merchant = models.ForeignKey(Merchant, models.CASCADE, related_name="exports")
    content = models.TextField()
    finished_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("-pk",)

    def __str__(self) -> str:
        return f"Export of {self.merchant}"
