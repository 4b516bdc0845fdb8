"""Load a boot image by its name in reference_templates/, by path, or by CID.

An image in a file has its blobs beside it, in `cids/`, each under its CID, and its own CID in `<name>.boot.cid`. All of
them are verified before any of them is stored.
"""

from __future__ import annotations

from pathlib import Path

from patchbay.assets import REFERENCE_TEMPLATES as FOLDER
from patchbay.cid import canonical, cid_of, is_cid, verify
from patchbay.errors import ConfigError, ContentError
from patchbay.store import Store


def load_image(boot: str, store: Store) -> tuple[bytes, str]:
    """Return the bytes of an image and their origin, for messages. Store the blobs that stand beside the image.

    Raises ConfigError that names the fault, MissingBlob for a CID that is not in the store.
    """
    named = FOLDER / f"{boot}.boot.json"
    if named.parent == FOLDER and named.is_file():
        return _load_file(named, store)
    if is_cid(boot):
        return store.blobs.get(boot), canonical(boot)
    path = Path(boot)
    if not boot or not path.is_file():
        known = sorted(file.name.removesuffix(".boot.json") for file in FOLDER.glob("*.boot.json"))
        names = ", ".join(known) or "run generate_boot_image.py to make one"
        raise ConfigError(
            "the setting boot",
            "",
            f"expected a boot image's name ({names}), a path or a CID; there is nothing at {boot!r}",
        )
    return _load_file(path, store)


def _load_file(path: Path, store: Store) -> tuple[bytes, str]:
    data = _read(path)
    expected = path.with_suffix(".cid")
    if expected.is_file() and expected != path:
        wanted = _read(expected).decode("utf-8", "replace").strip()
        if not is_cid(wanted) or cid_of(data) != canonical(wanted):
            raise ConfigError(
                str(path),
                "",
                f"expected the content of {wanted[:200]!r}, as {expected.name} says; it is {cid_of(data)}",
            )
    # An identity CID carries its own content, so that nothing is stored under it.
    store.blobs.put_many(blob for blob, cid in _blobs_in(path.parent / "cids") if cid == cid_of(blob))
    return data, str(path)


def _blobs_in(folder: Path) -> list[tuple[bytes, str]]:
    """Return every blob in a folder with its CID. Files whose name begins with a dot are ignored."""
    found = []
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        if file.name.startswith("."):
            continue
        data = _read(file)
        try:
            found.append((data, verify(file.name, data)))
        except ContentError as problem:
            raise ConfigError(str(file), "", f"expected a file named by its CID; {problem.message}") from problem
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise ConfigError(str(path), "", f"expected a file that can be read; {problem.strerror}") from problem
