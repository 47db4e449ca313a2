"""The shop in the admin."""

from __future__ import annotations

from django.contrib import admin

from .models import Customer, Export, Merchant, Order, OrderLine, Product


class OrderLineInline(admin.TabularInline):
    """The lines of an order."""

    model = OrderLine
    extra = 0


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    """Orders, newest first."""

    list_display = ("__str__", "merchant", "customer", "city", "country", "shipment")
    list_filter = ("merchant", "country")
    list_select_related = ("merchant", "customer")
    inlines = (OrderLineInline,)


@admin.register(Product)
class ProductAdmin(admin.ModelAdmin):
    """Products and how many were sold."""

    list_display = ("name", "sku", "merchant", "price", "sold")
    list_filter = ("merchant",)


admin.site.register([Customer, Export, Merchant])
