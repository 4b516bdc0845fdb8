"""Imports of a definition for which this machine has no module, with the lines that add the package.

Only the syntax tree is read. An import that may fail is not a problem: inside `try` with `except ImportError`, inside
`suppress(ImportError)`, under `if TYPE_CHECKING`, or under a condition on `sys`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from patchbay.descriptors import Problem
from patchbay.environments.requirements import ScriptBlock

IMPORT_ERRORS = frozenset(("ImportError", "ModuleNotFoundError", "Exception", "BaseException"))
OPTIONAL_CONDITIONS = frozenset(("TYPE_CHECKING", "sys", "platform", "os"))
"""Names in a condition that make the imports below it optional."""

DISTRIBUTIONS = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "Crypto": "pycryptodome",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "discord": "discord.py",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "fitz": "pymupdf",
    "git": "gitpython",
    "github": "pygithub",
    "googleapiclient": "google-api-python-client",
    "jose": "python-jose",
    "jwt": "pyjwt",
    "ldap": "python-ldap",
    "magic": "python-magic",
    "MySQLdb": "mysqlclient",
    "nacl": "pynacl",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "pptx": "python-pptx",
    "psycopg2": "psycopg2-binary",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "slugify": "python-slugify",
    "telegram": "python-telegram-bot",
    "usb": "pyusb",
    "win32api": "pywin32",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}
"""Well-known modules whose package of PyPI has another name."""


def foreign_imports(module: ast.Module) -> dict[str, int]:
    """Return the modules (first part of the name) that a definition always imports, each with its first line.

    Modules of the standard library and of the hub are left out.
    """
    found: dict[str, int] = {}
    for name, line in _imports(module):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top != "patchbay":
            found[top] = min(line, found.get(top, line))
    return dict(sorted(found.items(), key=lambda each: each[1]))


def _imports(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield each module that is imported in any case, with its line."""
    waiting: list[ast.AST] = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, node.lineno
        waiting += _certain_children(node)


def _certain_children(node: ast.AST) -> Iterable[ast.AST]:
    """Return the parts of a node whose imports may not fail."""
    if isinstance(node, ast.Try) and any(_catches(each.type) for each in node.handlers):
        return (*node.handlers, *node.orelse, *node.finalbody)
    if isinstance(node, ast.With) and any(_suppresses(each.context_expr) for each in node.items):
        return ()
    if isinstance(node, ast.If) and OPTIONAL_CONDITIONS & {
        each.id if isinstance(each, ast.Name) else each.attr
        for each in ast.walk(node.test)
        if isinstance(each, (ast.Name, ast.Attribute))
    }:
        return ()
    # An expression has no import, and most nodes are expressions.
    return (each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr))


def _catches(caught: ast.expr | None) -> bool:
    """Whether an `except` with this expression catches a failed import."""
    if caught is None:
        return True
    return any(isinstance(each, ast.Name) and each.id in IMPORT_ERRORS for each in ast.walk(caught))


def _suppresses(context: ast.expr) -> bool:
    """Whether a context manager is `suppress(ImportError)`."""
    if not isinstance(context, ast.Call):
        return False
    named = context.func.attr if isinstance(context.func, ast.Attribute) else getattr(context.func, "id", "")
    return named == "suppress" and any(_catches(each) for each in context.args)


def missing_imports(
    imports: Mapping[str, int], block: ScriptBlock | None, configured: Sequence[str], folder: Path | None
) -> tuple[Problem, ...]:
    """Return a problem for each import without a module.

    `imports` are those of `foreign_imports`, `configured` the requirements of the configuration, `folder` has the
    packages of the environment (`site-packages`), None for a definition without requirements.
    """
    missing = [name for name in imports if not _is_importable(name, folder)]
    return tuple(_problem(name, imports[name], missing, block, configured) for name in missing)


def _is_importable(name: str, folder: Path | None) -> bool:
    if folder is not None and PathFinder.find_spec(name, [str(folder)]) is not None:
        return True
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return name in sys.modules


def _problem(
    name: str, line: int, missing: Sequence[str], block: ScriptBlock | None, configured: Sequence[str]
) -> Problem:
    package = DISTRIBUTIONS.get(name, name)
    written = [*(block.dependencies if block is not None else ()), *configured]
    known = {canonicalize_name(Requirement(one).name) for one in written}
    if canonicalize_name(package) in known:
        reason = f"the package {package} is installed and has no module {name}; expected a module of your requirements"
        return Problem(f"import {name}", reason, line, is_fault=True)
    guess = "" if name in DISTRIBUTIONS else "; that the package has the name of the module is a guess, so check it"
    verb = "change the block # /// script to this" if block is not None else "add these lines at the top of the file"
    reason = f"no module {name} is installed: {verb}{guess}"
    packages = [DISTRIBUTIONS.get(each, each) for each in missing]
    return Problem(f"import {name}", reason, line, fix=script_block(packages, block), is_fault=True)


def script_block(packages: Iterable[str], block: ScriptBlock | None = None) -> str:
    """Return a block `# /// script` that requires these packages and those of an existing block."""
    present = block.dependencies if block is not None else ()
    known = {canonicalize_name(Requirement(one).name) for one in present}
    names = [*present, *(one for one in dict.fromkeys(packages) if canonicalize_name(one) not in known)]
    python = [f'# requires-python = "{block.requires_python}"'] if block is not None and block.requires_python else []
    listed = ", ".join(f'"{one}"' for one in names)
    return "\n".join(["# /// script", *python, f"# dependencies = [{listed}]", "# ///"])
