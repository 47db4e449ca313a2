"""Fetch pages and send forms, as a browser does."""

from __future__ import annotations

from http.cookiejar import CookieJar
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener


class Browser:
    """Keeps cookies and sends the CSRF token. One per thread.

    Args:
        site: address of the shop.
    """

    def __init__(self, site: str) -> None:
        self._site = site
        self._cookies = CookieJar()
        self._opener = build_opener(HTTPCookieProcessor(self._cookies))

    def get(self, path: str) -> str:
        """Return the text of a page."""
        with self._opener.open(self._site + path, timeout=30) as response:
            text: str = response.read().decode()
            return text

    def post(self, path: str, fields: dict[str, str]) -> str:
        """Send a form, and return the address of the page that came back.

        Raises:
            HTTPError: the form was refused.
        """
        if "csrftoken" not in self._values():
            self.get("/")
        token = self._values()["csrftoken"]
        body = urlencode({**fields, "csrfmiddlewaretoken": token}).encode()
        with self._opener.open(self._site + path, body, timeout=30) as response:
            return str(response.url)

    def _values(self) -> dict[str, str]:
        return {cookie.name: cookie.value or "" for cookie in self._cookies}
