"""Small wheels for tests, so that no test needs a package index."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str] | None = None,
    requires: Sequence[str] = (),
) -> Path:
    """Write a wheel of a module with the name of the package, which knows its version; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    metadata = [
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}",
        *(f"Requires-Dist: {one}" for one in requires),
    ]
    contents = {
        f"{module}.py": f"version = {version!r}\n",
        **(files or {}),
        f"{info}/METADATA": "\n".join(metadata) + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{info}/RECORD"
    contents[record] = "".join(f"{path},,\n" for path in (*contents, record))
    made = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as wheel:
        for path, text in contents.items():
            wheel.writestr(path, text)
    return made


def block(*requirements: str, python: str = "") -> str:
    """Return a block `# /// script` that requires these packages."""
    wanted = [f'# requires-python = "{python}"'] if python else []
    listed = ", ".join(f'"{one}"' for one in requirements)
    return "\n".join(["# /// script", *wanted, f"# dependencies = [{listed}]", "# ///", ""])
