"""Addresses of the shop."""

from __future__ import annotations

from django.urls import path

from . import views

urlpatterns = [
    path("", views.list_orders, name="orders"),
    path("orders/<int:order_id>/", views.show_order, name="order"),
    path("merchants/<slug:slug>/", views.place_order, name="place-order"),
    path("merchants/<slug:slug>/export/", views.export, name="export"),
]
