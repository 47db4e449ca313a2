"""Tests of django_pgjobs and of the tools of its checkout."""
