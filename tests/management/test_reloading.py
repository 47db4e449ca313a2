"""What counts as a change of the code. The rest is in tests/acceptance/test_reload_process.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.utils.autoreload import file_changed

from django_pgjobs.management.reloading import Watch


@pytest.fixture
def reads_anew():
    """Have a receiver deal with templates, as Django's own does."""

    def read_anew(*, file_path, **kwargs):
        return file_path.suffix == ".html"

    file_changed.connect(read_anew)
    yield
    file_changed.disconnect(read_anew)


def test_a_file_that_a_receiver_has_dealt_with_is_no_change(reads_anew):
    watch = Watch()

    watch.notify_file_changed(Path("/shop/receipt.html"))
    watch.notify_file_changed(Path("/shop/jobs.py"))

    assert watch.take() == ["/shop/jobs.py"]
    assert watch.take() == []
