"""Lists the programs that the tests use and that have a newer release: `scripts/peers --outdated`.

They are the Node packages of tests/node/package.json, and the Python packages of requirements-dev.txt that are peers.
Ends with 1 when one is behind. `--npm URL` and `--pypi URL` name other registries.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from patchbay.client.registry.lookup import Registries
from patchbay.client.registry.versions import is_newer

ROOT = Path(__file__).resolve().parents[1]
PYTHON_PEERS = ("fastmcp", "mcp")
"""The packages of requirements-dev.txt that the tests use as clients and servers of others."""


def pinned_peers(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield kind, name and pinned version of each peer."""
    dependencies: dict[str, str] = json.loads((root / "tests/node/package.json").read_text("utf-8"))["dependencies"]
    for name, version in sorted(dependencies.items()):
        yield "npm", name, version
    text = (root / "requirements-dev.txt").read_text("utf-8")
    for name in PYTHON_PEERS:
        found = re.search(rf"^{name}==(\S+)", text, re.MULTILINE)
        if found is not None:
            yield "pypi", name, found[1].rstrip("\\").strip()


def main() -> int:
    """Print one line for each peer that is behind; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--npm", default="https://registry.npmjs.org")
    parser.add_argument("--pypi", default="https://pypi.org")
    given = parser.parse_args()
    registries = Registries("https://registry.invalid", given.pypi, given.npm)
    count = behind = 0
    for kind, name, version in pinned_peers(ROOT):
        newest = registries.newest(kind, name)
        count += 1
        if newest is not None and is_newer(newest, version):
            behind += 1
            sys.stdout.write(f"{name} {version} -> {newest}\n")
    sys.stdout.write(f"{behind} of {count} peers are behind\n")
    return 1 if behind else 0


if __name__ == "__main__":
    sys.exit(main())
