"""When the files of the statements are read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from django_pgjobs import sql

PROGRAM = """
from pathlib import Path
from django_pgjobs import sql

sql.read_all()
Path.open = Path.read_text = None
print(len([sql.statement(name) for name in {names}]))
"""


def test_who_has_read_all_needs_no_file_any_more():
    folder = Path(sql.__file__).parent
    names = [f"{file.parent.name}/{file.stem}" for file in folder.glob("*/*.sql")]

    process = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(names=names)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert int(process.stdout) == len(names) > 50
