"""The blocks of code of a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"

_BLOCK = re.compile(
    r"^```(?:\{code-block\} )?(?P<language>\w+)\n(?::caption: (?P<caption>[^\n]+)\n\n)?"
    r"(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A block of code and what stands above it."""

    language: str
    caption: str
    code: str


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page, in order."""
    for found in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield Block(found["language"], found["caption"] or "", found["code"])
