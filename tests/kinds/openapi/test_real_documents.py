"""Real documents of public APIs: each operation is a tool of a mount and an operation of the client (issue 33).

The documents come from packages by version. `python -m tests.kinds.openapi.test_real_documents` prints the table of
docs/openapi.md.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest

from patchbay.client.openapi.documents import load_api_file
from patchbay.client.openapi.operations import Api
from patchbay.kinds.openapi.configuration import ApiConfiguration
from patchbay.kinds.openapi.tools import ApiTools, LoadedApi, build_tools
from tests.client.peers import unpacked_from_npm

URL = "https://api.example/openapi.json"
LIMIT = 1 << 25
OWN = Path(__file__).parent.parent.parent / "client" / "openapi" / "documents"


def unpacked_from_pypi(package: str, folder: Path) -> Path:
    """The files of a wheel."""
    words = ("pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), package)
    subprocess.run([sys.executable, "-m", *words], check=True, timeout=300)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(folder / "package")
    return folder / "package"


@dataclass(frozen=True)
class Corpus:
    """Documents of one package; `operations` is their number of operations, parameters and bodies."""

    name: str
    unpack: Callable[[str, Path], Path]
    pattern: str
    operations: int
    parameters: int
    bodies: int


CORPORA = (
    Corpus("drf_spectacular.yaml", lambda name, folder: OWN, "*.yaml", 12, 8, 6),
    Corpus("@octokit/openapi@23.0.2", unpacked_from_npm, "generated/api.github.com.json", 1223, 3526, 344),
    Corpus("@octokit/openapi@23.0.2", unpacked_from_npm, "generated/ghes-3.17.json", 966, 2712, 265),
    Corpus("@readme/oas-examples@8.2.2", unpacked_from_npm, "[23].*/**/*.json", 678, 813, 242),
    Corpus("@scalar/galaxy@0.2.20", unpacked_from_npm, "dist/3.1.yaml", 9, 6, 5),
    Corpus("jupyter_server==2.17.0", unpacked_from_pypi, "**/api/api.yaml", 31, 27, 7),
)


def read_corpus(corpus: Corpus, folder: Path) -> Iterator[tuple[Api, ApiTools]]:
    """Read the documents of a package, each as the client and as a mount does."""
    for path in sorted(corpus.unpack(corpus.name, folder).glob(corpus.pattern)):
        api = load_api_file(path, LIMIT)
        yield api, build_tools(LoadedApi("", URL, api.document), ApiConfiguration("x", URL, max_tools=LIMIT))


def measure(corpus: Corpus, folder: Path) -> tuple[int, int, int, int, int]:
    """Operations of the client, tools of a mount, problems, parameters, bodies."""
    found = list(read_corpus(corpus, folder))
    listed = [one for api, _ in found for one in api.list_operations().values()]
    tools = [one for _, built in found for one in built.tools.values()]
    for tool in tools:
        jsonschema.Draft202012Validator.check_schema(tool.descriptor.wire["inputSchema"])
    problems = sum(len(api.problems) + len(built.problems) for api, built in found)
    bodies = sum(one.body is not None for one in listed)
    return len(listed), len(tools), problems, sum(len(one.parameters) for one in listed), bodies


@pytest.mark.full
@pytest.mark.parametrize("corpus", CORPORA, ids=lambda corpus: f"{corpus.name} {corpus.pattern}")
def test_each_operation_of_a_real_document_is_a_tool(corpus: Corpus, tmp_path: Path) -> None:
    expected = (corpus.operations, corpus.operations, 0, corpus.parameters, corpus.bodies)
    assert measure(corpus, tmp_path) == expected


def write_table() -> None:
    """Write the table of docs/openapi.md."""
    rows: list[tuple[object, ...]] = [("Document", "Operations", "Tools", "Problems", "Parameters", "Bodies")]
    rows.append(("---",) * 6)
    for one in CORPORA:
        with tempfile.TemporaryDirectory() as folder:
            rows.append((f"{one.name} {one.pattern}", *measure(one, Path(folder))))
    sys.stdout.writelines(f"| {' | '.join(map(str, row))} |\n" for row in rows)


if __name__ == "__main__":
    write_table()
