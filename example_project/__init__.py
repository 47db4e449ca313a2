"""A small shop that uses django_pgjobs."""
