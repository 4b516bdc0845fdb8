"""The house rules of ARCHITECTURE.md, read from the syntax tree, so that they hold from the first commit on.

Every rule is a function from one module to its faults, each with file and line; every rule is shown a bad module too.
When the limit of a function hurts, split the function by duty: do not raise the limit.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.late_imports import LATE_IMPORTS
from tests.source_modules import Module, read

ROOMS_BY_FLOOR: tuple[tuple[str, ...], ...] = (
    (
        "app_uris",
        "assets",
        "background",
        "callback_mailbox",
        "exit_codes",
        "limits",
        "raised",
        "sqlite",
        "suggestions",
        "terminal",
        "text_cache",
        "topics",
        "yaml_core",
    ),
    ("errors", "events"),
    (
        "activation",
        "arguments",
        "cid",
        "embeddings",
        "fulltext",
        "hosts",
        "jsonrpc",
        "patterns",
        "processes",
        "setting_values",
        "store",
    ),
    ("coordination", "descriptors", "documents", "outputs", "settings", "threads", "views"),
    ("client", "environments", "kind", "occurrences", "stores"),
    ("caller_accounts", "config", "pins", "python_functions", "shaping"),
    ("upstreams",),
    ("boot", "kinds"),
    ("catalogue", "generate_boot_image"),
    ("rooms",),
    ("access",),
    ("messages",),
    ("activity", "scripting"),
    ("protocol",),
    ("wire",),
    ("serving",),
    ("assembly", "web"),
    ("app",),
    ("cli",),
    ("__main__",),
)
"""The rooms of the package from the lowest floor, which is 1. A room imports itself and lower floors only."""

FLOORS: dict[str, int] = {
    "old_paths": 0,  # the package itself, which every module imports, uses it
    **{room: floor for floor, rooms in enumerate(ROOMS_BY_FLOOR, 1) for room in rooms},
}

WITHOUT_FLOOR = len(ROOMS_BY_FLOOR) + 1

CLIENT_USES = {
    *ROOMS_BY_FLOOR[0],
    *ROOMS_BY_FLOOR[1],
    *("activation", "cid", "hosts", "jsonrpc", "processes", "setting_values", "settings", "store"),
}
"""What the client may know besides itself: basic types, interfaces and processes, nothing of the server side."""

FILLERS: dict[str, set[str]] = {
    "stores": {"memory", "sqlite", "postgresql", "redis", "objects"},
    "kinds": {each.parent.name for each in ROOT.glob("patchbay/kinds/*/kind.py")},
    "views": {"json", "sse", "native", "lines", "rooms"},
}
"""What fills each seam, today or by design; the other modules of these folders are what fillers share."""

REGISTRIES = {("kinds", "registry")}
"""The modules that know a filler of a seam by name: the type of the pool of worker processes."""

ONLY_IN: dict[str, tuple[str, ...]] = {
    "flask": ("patchbay/app.py", "patchbay/web/", "benchmarks/peers/"),
    "werkzeug": ("patchbay/app.py", "patchbay/wire/", "patchbay/web/"),
    "click": ("patchbay/cli/",),
    "sqlite3": ("patchbay/sqlite.py",),
    "pysqlite3": ("patchbay/sqlite.py",),
    "patchbay.sqlite": ("patchbay/stores/sqlite", "patchbay/fulltext/", "patchbay/documents/", "benchmarks/"),
    "numpy": ("patchbay/embeddings/", "benchmarks/search_meaning.py"),
    "safetensors": ("patchbay/embeddings/",),
    "tokenizers": ("patchbay/embeddings/",),
    "psycopg": ("patchbay/stores/postgresql/", "tests/"),
    "psycopg_pool": ("patchbay/stores/postgresql/",),
    "procrastinate": ("patchbay/stores/postgresql/",),
    "pydantic_monty": ("patchbay/scripting/",),
    "subprocess": ("patchbay/processes/", "patchbay/kinds/", "patchbay/client/", "scripts/", "benchmarks/", "tests/"),
}
"""Libraries and the only places that may know them."""

LATE = {(path, name) for files in LATE_IMPORTS.values() for path, names in files.items() for name in names}

LONGEST_FUNCTION = 60
ATTICS = {"utils", "util", "helpers", "helper", "common", "misc"}

Fault = str


def floor(place: tuple[str, ...]) -> int:
    """The floor of a place; 0 for the package itself, the highest number for a room without a floor."""
    return FLOORS.get(place[0], WITHOUT_FLOOR) if place and place[0] not in ("__init__", "__version__") else 0


def lines_for_type_checkers(module: Module) -> set[int]:
    """The lines of the blocks under `if TYPE_CHECKING:` at the top level of a module."""
    return {
        line
        for node in module.tree.body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for statement in node.body
        for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    }


def down_only(module: Module) -> list[Fault]:
    """A module imports from its own room and from lower floors, never from another room of its floor.

    The package itself names its exports for type checkers; at run time it loads each of them when it is used.
    """
    own = floor(module.place)
    unknown = own == WITHOUT_FLOOR
    faults = [f"{module.path}:1: {module.place[0]} has no floor; name it in ROOMS_BY_FLOOR"] if unknown else []
    exports = lines_for_type_checkers(module) if module.path == "patchbay/__init__.py" else set()
    for line, place in module.inside():
        if place[:1] != module.place[:1] and floor(place) >= max(own, 1) and line not in exports:
            faults.append(f"{module.path}:{line}: floor {own} imports {'.'.join(place)} of floor {floor(place)}")
    return faults


def fillers_apart(module: Module) -> list[Fault]:
    """Fillers of one seam do not import each other, and their shared modules do not import them."""
    seam, *rest = module.place
    if seam not in FILLERS or rest in ([], ["__init__"]) or (seam, *rest) in REGISTRIES:
        return []
    others = FILLERS[seam] - {rest[0]}
    return [
        f"{module.path}:{line}: {seam}/{rest[0]} imports the filler {place[1]}"
        for line, place in module.inside()
        if place[0] == seam and len(place) > 1 and place[1] in others
    ]


def client_alone(module: Module) -> list[Fault]:
    """`client/` never imports the server side: it knows `CLIENT_USES` and itself."""
    if module.place[0] != "client":
        return []
    return [
        f"{module.path}:{line}: the client imports the server side, {'.'.join(place)}"
        for line, place in module.inside()
        if place and place[0] not in CLIENT_USES | {"client", "__init__", "__version__"}
    ]


def libraries_in_place(module: Module) -> list[Fault]:
    """Some libraries are known in one place only."""
    return [
        f"{module.path}:{line}: {name} may only be imported in {', '.join(places)}"
        for line, name, _ in module.imports()
        for library, places in ONLY_IN.items()
        if f"{name}.".startswith(f"{library}.") and not module.path.startswith((*places, "tests/"))
    ]


def environment_in_settings(module: Module) -> list[Fault]:
    """Only settings.py reads the environment."""
    if module.path == "patchbay/settings.py":
        return []
    readers = {"environ", "environb", "getenv", "getenvb", "putenv"}
    if not any(name in module.text for name in readers):
        return []
    faults = [
        f"{module.path}:{node.lineno}: os.{node.attr} belongs in settings.py"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute)
        and node.attr in readers
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
    ]
    named = [(line, name) for line, name, _ in module.imports() if name.startswith("os.") and name[3:] in readers]
    return faults + [f"{module.path}:{line}: {name} belongs in settings.py" for line, name in named]


def no_late_import(module: Module) -> list[Fault]:
    """No import inside a function but those of LATE_IMPORTS: a late import hides a circle."""
    return [
        f"{module.path}:{line}: import of {name} inside the function {function}"
        for line, name, function in module.imports()
        if function and (module.path, name) not in LATE
    ]


def short_functions(module: Module) -> list[Fault]:
    """No function above the limit, from its `def` to its last line."""
    return [
        f"{module.path}:{node.lineno}: {node.name} has {lines} lines; the limit is {LONGEST_FUNCTION}"
        for node in module.functions()
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST_FUNCTION
    ]


def has_precise_name(module: Module) -> list[Fault]:
    """No attic: a module is named after what it does."""
    return [f"{module.path}:1: the name {part!r} says nothing" for part in module.place if part in ATTICS]


def opening_docstring(module: Module) -> list[Fault]:
    """Every file begins with a docstring that states its purpose."""
    return [] if ast.get_docstring(module.tree) else [f"{module.path}:1: no docstring"]


Rule = Callable[[Module], list[Fault]]
ON_CODE: tuple[Rule, ...] = (down_only, fillers_apart, client_alone, environment_in_settings)
ON_ALL: tuple[Rule, ...] = (
    short_functions,
    libraries_in_place,
    no_late_import,
    has_precise_name,
    opening_docstring,
)
ON_TESTS: tuple[Rule, ...] = (short_functions, has_precise_name, opening_docstring)
CODE = ("app.py", "generate_boot_image.py", "patchbay/**/*.py")
ALL = (*CODE, "scripts/**/*.py", "benchmarks/**/*.py")
TESTS = ("tests/**/*.py",)


def rules_for(path: str) -> tuple[Rule, ...]:
    """The rules for a module of this path. The first one needs its syntax tree, which the others then find there."""
    if path.startswith("tests/"):
        return ON_TESTS
    return ON_ALL if path.startswith(("scripts/", "benchmarks/")) else (*ON_ALL, *ON_CODE)


@cache
def faults_by_rule(patterns: tuple[str, ...]) -> dict[Rule, str]:
    """The faults of all modules under these patterns: each module is parsed once for all of its rules."""
    found: dict[Rule, list[Fault]] = defaultdict(list)
    for module in read(*patterns):
        for rule in rules_for(module.path):
            found[rule] += rule(module)
        vars(module).pop("tree")  # the trees of all modules would fill the memory
    return {rule: "\n".join(faults) for rule, faults in found.items()}


@pytest.mark.parametrize("rule", ON_CODE, ids=lambda rule: rule.__name__)
def test_the_code_keeps_the_rule(rule: Rule) -> None:
    faults = faults_by_rule(ALL)[rule]
    assert not faults, f"{rule.__doc__}\n{faults}"


@pytest.mark.parametrize("rule", ON_ALL, ids=lambda rule: rule.__name__)
def test_code_and_scripts_keep_the_rule(rule: Rule) -> None:
    faults = faults_by_rule(ALL)[rule]
    assert not faults, f"{rule.__doc__}\n{faults}"


@pytest.mark.parametrize("rule", ON_TESTS, ids=lambda rule: rule.__name__)
def test_tests_keep_the_rule(rule: Rule) -> None:
    faults = faults_by_rule(TESTS)[rule]
    assert not faults, f"{rule.__doc__}\n{faults}"


def circle(graph: dict[str, set[str]]) -> list[str]:
    """One circle of a graph, or nothing."""
    done: set[str] = set()

    def walk(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        found = next(filter(None, (walk(other, [*path, name]) for other in sorted(graph.get(name, ())))), [])
        done.add(name)
        return found

    return next(filter(None, (walk(name, []) for name in sorted(graph))), [])


def graph_of(modules: list[Module]) -> dict[str, set[str]]:
    """Which module imports which: an import goes to the longest name that is a module."""
    names = {".".join(module.place).removesuffix(".__init__"): module for module in modules}
    return {
        name: {
            target
            for _, place in module.inside()
            if (target := next((t for n in range(len(place), 0, -1) if (t := ".".join(place[:n])) in names), name))
            != name
        }
        for name, module in names.items()
    }


def test_every_folder_of_the_package_says_its_duty() -> None:
    folders = {Path(module.path).parent for module in read("patchbay/**/*.py")}
    assert [str(folder) for folder in sorted(folders) if not (ROOT / folder / "__init__.py").is_file()] == []


def rooms_in_table(document: str) -> dict[str, int]:
    """The floor of each room that the table of floors in ARCHITECTURE.md names."""
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \|", document, re.MULTILINE)
    return {
        room.removesuffix("/").removesuffix(".py"): int(number)
        for number, names in rows
        for room in re.findall(r"`([^`]+)`", names)
    }


def test_the_table_of_the_architecture_has_the_same_floors() -> None:
    assert rooms_in_table((ROOT / "ARCHITECTURE.md").read_text("utf-8")) == FLOORS


def test_no_modules_import_each_other_in_a_circle() -> None:
    found = circle(graph_of(read(*CODE)))
    assert not found, f"a circle of imports: {' -> '.join(found)}"


def test_the_code_is_found() -> None:
    paths = {module.path for module in read(*CODE)}
    assert {"patchbay/errors.py", "patchbay/stores/memory.py"} <= paths


BAD: list[tuple[Rule, Module, int]] = [
    (down_only, Module("patchbay/store.py", "import os\nfrom patchbay.stores.memory import MemoryStore"), 2),
    (down_only, Module("patchbay/cid.py", "from patchbay import store"), 1),
    (down_only, Module("patchbay/attic.py", "x = 1"), 1),
    (down_only, Module("patchbay/__init__.py", "from patchbay.errors import PatchbayError"), 1),
    (down_only, Module("patchbay/cid.py", "if TYPE_CHECKING:\n    from patchbay import store"), 2),
    (down_only, Module("patchbay/wire/endpoints/mcp.py", "import app"), 1),
    (down_only, Module("patchbay/web/pages.py", "from patchbay.assembly import Hub"), 1),
    (fillers_apart, Module("patchbay/stores/memory.py", "from patchbay.stores.sqlite import blobs"), 1),
    (fillers_apart, Module("patchbay/kinds/shell/handler.py", "from patchbay.kinds import python"), 1),
    (
        fillers_apart,
        Module("patchbay/kinds/python/functions.py", "from patchbay.kinds.shell.handler import run"),
        1,
    ),
    (client_alone, Module("patchbay/client/http.py", "from patchbay.views.sse import frame"), 1),
    (libraries_in_place, Module("patchbay/cid.py", "from flask import request"), 1),
    (libraries_in_place, Module("patchbay/stores/memory.py", "import sqlite3"), 1),
    (libraries_in_place, Module("patchbay/protocol/dispatch.py", "import subprocess"), 1),
    (libraries_in_place, Module("app.py", "import click.testing"), 1),
    (environment_in_settings, Module("app.py", "import os\n\nx = os.environ['A']"), 3),
    (environment_in_settings, Module("app.py", "from os import getenv"), 1),
    (no_late_import, Module("app.py", "def f():\n    import json"), 2),
    (short_functions, Module("app.py", "def f():\n" + "    x = 1\n" * 60), 1),
    (has_precise_name, Module("patchbay/protocol/utils.py", ""), 1),
    (opening_docstring, Module("app.py", "import os"), 1),
]


@pytest.mark.parametrize(("rule", "module", "line"), BAD, ids=lambda value: getattr(value, "__name__", ""))
def test_each_rule_finds_what_breaks_it(rule: Rule, module: Module, line: int) -> None:
    assert [fault for fault in rule(module) if fault.startswith(f"{module.path}:{line}: ")]


def test_every_late_import_of_the_list_is_still_there() -> None:
    found = {(module.path, name) for module in read(*ALL) for _, name, function in module.imports() if function}
    assert found == LATE


def test_a_circle_is_found() -> None:
    modules = [
        Module("patchbay/boot/image.py", "from patchbay.boot.names import A"),
        Module("patchbay/boot/names.py", "from patchbay.boot import image"),
    ]
    assert circle(graph_of(modules)) == ["boot.image", "boot.names", "boot.image"]


def test_an_allowed_module_has_no_fault() -> None:
    text = (
        '"""A store."""\nimport threading\nfrom patchbay.errors import MissingBlob\nfrom patchbay.stores.bus import Bus'
    )
    module = Module("patchbay/stores/memory.py", text)
    assert [fault for rule in (*ON_CODE, *ON_ALL) for fault in rule(module)] == []
