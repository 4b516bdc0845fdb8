"""Checks the names of packages in the servers folder: those that belong to another project than the one that is meant.

Nothing is asked over the network: the names are those that this program knows, its own and those of modules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import orjson
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from patchbay.catalogue.watching.settling import CONFIG_ENDING
from patchbay.cli.doctor.verdicts import CheckResult, warning
from patchbay.client.addresses.address import parse_address
from patchbay.client.addresses.targets import Stdio
from patchbay.environments.imports import DISTRIBUTIONS
from patchbay.environments.requirements import read_script_block
from patchbay.errors import PatchbayError
from patchbay.serving.next_step import DISTRIBUTION

OTHER_PROJECTS = {"patchbay": DISTRIBUTION} | {
    canonicalize_name(module): package
    for module, package in DISTRIBUTIONS.items()
    if not package.startswith((f"{module}-", f"{module}."))
}
"""A name at PyPI that belongs to another project, and the package that is meant; names in canonical form."""

PACKAGE_OPTIONS = ("--from", "--with")
"""Options of `uv` and `uvx` that name a package."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def check_package_names(folder: Path) -> Iterator[CheckResult]:
    """Yield a warning for each file of a servers folder that names a package of another project than meant."""
    try:
        files = sorted(folder.iterdir())
    except OSError:
        return  # the check of the folder has said it
    for file in files:
        for name in sorted(set(_list_packages(file))):
            meant = OTHER_PROJECTS.get(canonicalize_name(name))
            if meant is not None:
                sentence = f"{file.name} names the package {name} of PyPI, which is another project than {meant}"
                yield warning("package names", sentence, f"write {meant} in {file}")


def _list_packages(file: Path) -> Iterator[str]:
    """Yield the names of the packages of PyPI that a definition, its configuration or a mount asks for.

    A file that cannot be read yields none: other checks say why.
    """
    try:
        if file.suffix == ".py":
            block = read_script_block(file.read_bytes(), file.stem)
            yield from map(_name_of, block.dependencies if block is not None else ())
        elif file.suffix == ".json":
            fields = orjson.loads(file.read_bytes())
            if not isinstance(fields, dict):
                return
            listed = fields.get("requirements") if file.name.endswith(CONFIG_ENDING) else None
            yield from (_name_of(one) for one in (listed if isinstance(listed, list) else ()) if isinstance(one, str))
            if isinstance(fields.get("address"), str):
                yield from _list_launched(fields["address"])
    except (OSError, ValueError, PatchbayError):
        return


def _list_launched(address: str) -> Iterator[str]:
    """Yield the names of the packages that an address has `uv` or `uvx` run. Raises AddressError."""
    target = parse_address(address).target
    if not isinstance(target, Stdio):
        return
    program, rest = Path(target.command).name, list(target.args)
    if program == "uv" and rest[:2] == ["tool", "run"]:
        program, rest = "uvx", rest[2:]
    if program not in ("uv", "uvx"):
        return
    named = [rest[at + 1] for at, word in enumerate(rest[:-1]) if word in PACKAGE_OPTIONS]
    if program == "uvx" and "--from" not in rest and rest and not rest[0].startswith("-"):
        named.append(rest[0])
    yield from map(_name_of, named)


def _name_of(requirement: str) -> str:
    """Return the name in a requirement such as `requests>=2` or `tool@1.2`; "" for one that has no name."""
    try:
        return Requirement(requirement).name
    except InvalidRequirement:
        found = _NAME.match(requirement)
        return found[0] if found else ""
