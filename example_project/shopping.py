"""Customers: they order over HTTP, as a browser would."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from .browser import Browser
from .shop.catalogue import read_lines

#: How many order at a time.
CUSTOMERS: Final = 4


def place_orders(site: str, path: Path) -> list[str]:
    """Place the orders of a CSV, several at a time; return the address of each one's page.

    Raises:
        HTTPError: an order was refused.
    """
    here = threading.local()

    def place(lines: list[dict[str, str]]) -> str:
        if not hasattr(here, "browser"):
            here.browser = Browser(site)
        return _place(here.browser, lines)

    grouped = itertools.groupby(read_lines(path), key=lambda line: line["order"])
    orders = [list(lines) for _, lines in grouped]
    with ThreadPoolExecutor(CUSTOMERS) as pool:
        return list(pool.map(place, orders))


def _place(browser: Browser, lines: list[dict[str, str]]) -> str:
    first = lines[0]
    fields = {
        "name": first["customer"],
        "email": first["email"],
        "city": first["city"],
        "country": first["country"],
        **{line["sku"]: line["quantity"] for line in lines},
    }
    return browser.post(f"/merchants/{first['merchant']}/", fields)
