"""The directive ``statements``: a section for each statement of a folder, from its header."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from docutils import nodes
from docutils.nodes import make_id
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def statements_of(folder: str) -> list[Traversable]:
    """Return the files of a folder of statements, by name."""
    found = files("django_pgjobs.sql").joinpath(folder).iterdir()
    return sorted((f for f in found if f.name.endswith(".sql")), key=lambda file: file.name)


def read_header(file: Traversable) -> tuple[str, str, str]:
    """Return a statement's name, what it does in one line, and the rest of its header."""
    lines = file.read_text(encoding="utf-8").splitlines()
    header = [line.removeprefix("--").removeprefix(" ") for line in lines if line.startswith("--")]
    name, _, purpose = header[0].partition(": ")
    return name, purpose, "\n".join(header[1:]).strip()


class Statements(SphinxDirective):
    """``{statements} folder``"""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return [self._section(file) for file in statements_of(self.arguments[0])]

    def _section(self, file: Traversable) -> nodes.section:
        self.env.note_dependency(str(file))
        name, purpose, rest = read_header(file)
        section = nodes.section(ids=[make_id(name)], names=[name])
        section += nodes.title("", "", nodes.literal(text=name))
        section += nodes.paragraph(text=purpose[0].upper() + purpose[1:])
        section += nodes.literal_block(text=rest, language="text")
        return section


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("statements", Statements)
    return {"parallel_read_safe": True}
