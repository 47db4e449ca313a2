"""Configuration of the app of the tests."""

from __future__ import annotations

from django.apps import AppConfig


class TestAppConfig(AppConfig):
    """The app that declares the jobs of the tests."""

    name = "tests.app"
    label = "tests_app"
    default_auto_field = "django.db.models.BigAutoField"
