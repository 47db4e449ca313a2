"""Configuration of Sphinx."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import django

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_extensions")]

# The modules to document import models.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

import django_pgjobs  # noqa: E402 - needs Django's settings

project = "django-pgjobs"
author = "django-pgjobs contributors"
release = django_pgjobs.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "statements"]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"django-pgjobs {release}"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_use_ivar = True
