"""Settings of the example shop. Its surroundings come from the environment.

``DATABASE_URL`` is required; ``make demo`` and ``make serve`` start a server when it is missing.
"""

from __future__ import annotations

from datetime import timedelta

import django
import environ

env = environ.Env()

SECRET_KEY = env.str("SECRET_KEY", default="the example shop has no secrets")
DEBUG = env.bool("DEBUG", default=True)
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "testserver"]

DATABASES = {"default": env.db_url("DATABASE_URL")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    # Django 6.1 asks for it, because of an array in a model of django_pgjobs.
    "django_pgjobs",
    "example_project.shop",
]

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

ROOT_URLCONF = "example_project.urls"
STATIC_URL = "static/"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

USE_TZ = True
TIME_ZONE = "UTC"

SMTP = {
    "host": env.str("EMAIL_HOST", default="127.0.0.1"),
    "port": env.int("EMAIL_PORT", default=2525),
    "timeout": 10,
}
if django.VERSION >= (6, 1):
    MAILERS = {
        "default": {"BACKEND": "django.core.mail.backends.smtp.EmailBackend", "OPTIONS": SMTP}
    }
else:
    EMAIL_HOST, EMAIL_PORT, EMAIL_TIMEOUT = SMTP["host"], SMTP["port"], SMTP["timeout"]
DEFAULT_FROM_EMAIL = "shop@shop.example"

# Times are short so that something can be seen of a lost worker within seconds. For a shop in
# production the defaults are right.
PGJOBS = {
    "LEASE_DURATION": timedelta(seconds=6),
    "HEARTBEAT_INTERVAL": timedelta(seconds=2),
    "REAPER_INTERVAL": timedelta(seconds=1),
    "BACKOFF_BASE": timedelta(seconds=1),
    "POLL_INTERVAL": timedelta(milliseconds=200),
    "SHUTDOWN_TIMEOUT": timedelta(seconds=10),
}

# When customers are asked how they liked it: a week later, in a real shop.
SHOP_REVIEW_DELAY = timedelta(seconds=3)
# How long an export takes: as long as a large one would.
SHOP_EXPORT_DURATION = timedelta(seconds=3)
