"""Tests of the example shop."""
