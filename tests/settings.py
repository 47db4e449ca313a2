"""Settings of the project that the tests run.

``DATABASE_URL`` names the server. ``tests.plugin_database`` sets it when it is absent.
"""

from __future__ import annotations

import environ

env = environ.Env()

SECRET_KEY = "for-tests-only"
DEBUG = False
ALLOWED_HOSTS = ["testserver", "localhost"]

DATABASES = {
    # The default is for tools that read settings and never connect, such as the type checker.
    "default": env.db_url("DATABASE_URL", default="postgres://postgres@127.0.0.1:5432/pgjobs"),
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django_pgjobs",
    "tests.app",
]

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

ROOT_URLCONF = "tests.urls"
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

# Hashing is slow on purpose; here it only makes logging in slow.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
