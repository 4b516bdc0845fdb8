"""Make one self-contained file of `patchbay/client/plugin.py` and everything it needs: `mcp_.py`.

    .venv/bin/python scripts/single_file.py          write dist/mcp_.py
    .venv/bin/python scripts/single_file.py FILE     write FILE

The needed modules follow one another in the order of their imports. Names that the plugin does not reach and imports of
the project are left out; a name in two modules gets the module's name added. `uv run --script` runs the result; its
dependencies come from pyproject.toml.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENTRY = "patchbay.client.plugin"
TARGET = ROOT / "dist" / "mcp_.py"
REAPER = "patchbay/processes/process_trees.py"
HEAD = '''"""MCP servers as records: a program in one file. Made by scripts/single_file.py; change its sources instead.

    uv run --script mcp_.py --mode read "mcp+uvx://mcp-server-time?tool=get_current_time&timezone=UTC"
"""

from __future__ import annotations
'''
METADATA = """#!/usr/bin/env -S uv run --script
# /// script
# requires-python = "{python}"
# dependencies = [
{dependencies}
# ]
#
# [tool.jn]
# matches = ["^mcp([+][a-z]+)?:.*", "^@[A-Za-z0-9_.-]+.*"]
# ///
"""

LOOKS = ("--line-length", "120", "--target-version", "py311")

Import = tuple[str, str, str]
"""The module, the name in it or "", and the name it gets here."""


@dataclass
class Part:
    """One module: its statements, what it takes from the project, and what from elsewhere."""

    name: str
    body: list[ast.stmt]
    title: str
    inside: dict[str, tuple[str, str]] = field(default_factory=dict)
    outside: dict[str, Import] = field(default_factory=dict)
    dotted: set[str] = field(default_factory=set)
    finals: dict[str, str] = field(default_factory=dict)

    @property
    def own(self) -> set[str]:
        return set(bound(self.body))


class Hoister(ast.NodeTransformer):
    """Takes the imports out of functions and of `if TYPE_CHECKING`: in one file there is nothing to load late."""

    def __init__(self) -> None:
        self.found: list[ast.stmt] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        for outer in ast.walk(node):
            if isinstance(outer, ast.FunctionDef | ast.If | ast.With | ast.For | ast.While | ast.Try):
                self.found += [one for one in outer.body if isinstance(one, ast.Import | ast.ImportFrom)]
                outer.body = [one for one in outer.body if not isinstance(one, ast.Import | ast.ImportFrom)]
        return node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            return node
        self.found += node.body
        return None


def read(name: str) -> Part:
    """A module, its imports taken out of its statements."""
    path = ROOT / f"{name.replace('.', '/')}.py"
    tree = ast.parse(path.read_text("utf-8"), str(path))
    part = Part(name, [], (ast.get_docstring(tree) or "").partition("\n")[0])
    hoister = Hoister()
    for node in [*hoister.visit(tree).body, *hoister.found]:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                local = alias.asname or alias.name
                if node.module.split(".")[0] == "patchbay":
                    part.inside[local] = (node.module, alias.name)
                elif node.module != "__future__":
                    part.outside[local] = (node.module, alias.name, local)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                assert alias.name.split(".")[0] != "patchbay", f"{path}: import names, not modules"
                top = alias.name.split(".")[0]
                assert alias.asname is None or "." not in alias.name, f"{path}: {alias.name} as {alias.asname}"
                part.outside[alias.asname or top] = (top, "", alias.asname or "")
                part.dotted |= {alias.name} - {top}
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            part.body.append(node)
    return part


def needed(entry: str) -> list[Part]:
    """The modules that a module needs, itself last, each after those it needs."""
    found: dict[str, Part] = {}

    def visit(name: str) -> None:
        if name in found:
            return
        part = read(name)
        for module, _ in part.inside.values():
            visit(module)
        found[name] = part

    visit(entry)
    return list(found.values())


def bound(body: list[ast.stmt]) -> Iterator[str]:
    """The names that some statements bind in their own scope."""
    left: list[ast.AST] = list(body)
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
            continue
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            yield from (one.target.id for one in ast.walk(node) if isinstance(one, ast.NamedExpr))
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name
        left += ast.iter_child_nodes(node)


class Renamer(ast.NodeTransformer):
    """Puts the final names in where a name is that of the module; notes which of them are used."""

    def __init__(self, finals: dict[str, str]) -> None:
        self._finals = finals
        self._scopes: list[set[str]] = []
        self.used: set[str] = set()

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not any(node.id in scope for scope in self._scopes) and node.id in self._finals:
            node.id = self._finals[node.id]
            self.used.add(node.id)
            assert not any(node.id in scope for scope in self._scopes), f"{node.id} (line {node.lineno}) is hidden here"
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        if not self._scopes:
            node.name = self._finals.get(node.name, node.name)
        node.decorator_list = [self.visit(one) for one in node.decorator_list]
        node.returns = self.visit(node.returns) if node.returns else None
        self._outer(node.args)
        with_names = {*_arguments(node.args), *bound(node.body)}
        self._scopes.append(with_names)
        node.body = [self.visit(one) for one in node.body]
        self._scopes.pop()
        return node

    def _outer(self, arguments: ast.arguments) -> None:
        arguments.defaults = [self.visit(one) for one in arguments.defaults]
        arguments.kw_defaults = [self.visit(one) if one else None for one in arguments.kw_defaults]
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
            if one is not None and one.annotation is not None:
                one.annotation = self.visit(one.annotation)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._outer(node.args)
        self._scopes.append(set(_arguments(node.args)))
        node.body = self.visit(node.body)
        self._scopes.pop()
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        if not self._scopes:
            node.name = self._finals.get(node.name, node.name)
        node.bases = [self.visit(one) for one in node.bases]
        node.keywords = [self.visit(one) for one in node.keywords]
        node.decorator_list = [self.visit(one) for one in node.decorator_list]
        own = set(bound(node.body))
        for number, one in enumerate(node.body):
            # A method does not see the names of its class; a field's annotation and value do, and never mean them here.
            is_method = isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            self._scopes.append(set() if is_method else own - set(_loaded(one)))
            node.body[number] = self.visit(one)
            self._scopes.pop()
        return node

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> ast.AST:
        targets = {n.id for one in node.generators for n in ast.walk(one.target) if isinstance(n, ast.Name)}
        node.generators[0].iter = self.visit(node.generators[0].iter)
        first, node.generators[0].iter = node.generators[0].iter, ast.Constant(None)
        self._scopes.append(targets)
        self.generic_visit(node)
        self._scopes.pop()
        node.generators[0].iter = first
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension


def _loaded(node: ast.AST) -> Iterator[str]:
    return (one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load))


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    rows = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
    return (one.arg for one in rows if one is not None)


def give_names(parts: list[Part]) -> None:
    """Final names: as they are, or with the module's name added where two things have one name."""
    owners: dict[str, set[object]] = {}
    for part in parts:
        for name in part.own:
            owners.setdefault(name, set()).add(part.name)
        for local, what in part.outside.items():
            owners.setdefault(local, set()).add(what)
    taken = {name for name, who in owners.items() if len(who) > 1} | set(dir(builtins))
    for part in parts:
        last = part.name.rpartition(".")[2]
        for name in sorted({*part.own, *part.outside}):
            part.finals[name] = f"{name}_{last}" if name in taken else name
    again = Counter(part.finals[name] for part in parts for name in part.own)
    twice = sorted(name for name, count in again.items() if count > 1)
    assert not twice, f"two modules of one name have {', '.join(twice)}"
    by_name = {part.name: part for part in parts}
    for part in parts:
        for local, (module, name) in part.inside.items():
            part.finals[local] = _origin(by_name, module, name)


def _origin(parts: dict[str, Part], module: str, name: str) -> str:
    part = parts[module]
    if name in part.inside:
        return _origin(parts, *part.inside[name])
    assert name in part.finals, f"{module} has no {name}; import names, not modules"
    return part.finals[name]


@dataclass
class Piece:
    """One statement with its final names: what it binds and what it needs."""

    node: ast.stmt
    binds: set[str]
    needs: set[str]


def pieces_of(part: Part) -> list[Piece]:
    """The statements of a module under their final names."""
    found: list[Piece] = []
    for node in part.body:
        renamer = Renamer(part.finals)
        binds = {part.finals[name] for name in bound([node])}
        done = renamer.visit(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # the note below a constant
        found.append(Piece(done, binds, renamer.used - binds))
    return found


def reached(pieces: dict[str, list[Piece]]) -> set[str]:
    """The names that the entry needs, and those that these need."""
    by_name = {name: piece for rows in pieces.values() for piece in rows for name in piece.binds}
    left = [name for piece in pieces[ENTRY] for name in piece.needs | piece.binds]
    found: set[str] = set()
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += by_name[name].needs if name in by_name else ()
    return found


def with_reaper(text: str) -> str:
    """The program that stands between the client and a server, which is a file of its own there, as text here."""
    path = "REAPER = str(Path(__file__).resolve().parents[3] / 'processes' / 'process_trees.py')"
    call = "'-S', REAPER) if plan is None"
    counts = (text.count(path), text.count(call))
    assert counts == (1, 1), "expected programs/stdio.py to start the reaper by its path, once"
    program = (ROOT / REAPER).read_text("utf-8")
    return text.replace(path, f"REAPER = {program!r}").replace(call, "'-S', '-c', REAPER) if plan is None")


def imports(parts: list[Part], names: set[str]) -> list[str]:
    """The import statements for what is needed from elsewhere."""
    rows = {f"import {name}" for part in parts for name in part.dotted if part.finals[name.split(".")[0]] in names}
    for part in parts:
        for local, (module, name, alias) in part.outside.items():
            final = part.finals[local]
            if final in names and name:
                rows.add(f"from {module} import {name}" + (f" as {final}" if final != name else ""))
            elif final in names:
                rows.add(f"import {module}" + (f" as {final}" if alias or final != local else ""))
    return sorted(rows)


def dependencies(lines: list[str]) -> list[str]:
    """The requirements of the imports, with the ranges of pyproject.toml."""
    modules = {re.split(r"[ .]", line)[1] for line in lines} - set(sys.stdlib_module_names)
    known = packages_distributions()
    wanted = {known[module][0].lower().replace("_", "-") for module in modules}
    ranges = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    named = {re.split(r"[<>=!\[ ]", one)[0].lower(): one for one in ranges}
    return [named[name] for name in sorted(wanted)]


def made() -> str:
    """The whole file."""
    parts = needed(ENTRY)
    give_names(parts)
    pieces = {part.name: pieces_of(part) for part in parts}
    names = reached(pieces)
    chunks, used = [], set()
    for part in parts:
        rows = [piece for piece in pieces[part.name] if piece.binds & names or (not piece.binds and part.name == ENTRY)]
        if rows:
            used |= {name for piece in rows for name in piece.needs}
            code = "\n\n".join(ast.unparse(ast.fix_missing_locations(piece.node)) for piece in rows)
            chunks.append(f"# {part.name.replace('.', '/')}.py: {part.title}\n\n{code}")
    lines = imports(parts, used)
    body = with_reaper("\n\n\n".join(chunks))
    wanted = "\n".join(f'#   "{one}",' for one in dependencies(lines))
    head = METADATA.replace("{dependencies}", wanted).replace("{python}", ">=3.11")
    return "\n".join([head + HEAD, *lines, "", "", body, ""])


def formatted(text: str) -> str:
    """The file as people read it, where ruff is installed; scripts/run installs what the hub needs only."""
    if find_spec("ruff") is None:
        return text
    ruff = [sys.executable, "-m", "ruff", "format", "--isolated", *LOOKS, "-"]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout


def write(target: Path) -> None:
    """Write the file, its folder too where it is missing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(formatted(made()), "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, default=TARGET, help="default: dist/mcp_.py")
    write(parser.parse_args().file)
