"""Two rules of imports that the code does not keep everywhere yet: the exceptions are listed, and may only shrink.

* Only `kinds/` knows one kind of server: whatever asks about a kind asks its row.
* A folder holds what its subfolders use, or what uses them, never both.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import PurePosixPath

from tests.allowed_imports import KIND_IMPORTS, MUTUAL_FOLDERS
from tests.source_modules import Module, read
from tests.test_layers import CODE, FILLERS, graph_of

Found = dict[str, tuple[str, ...]]


def sorted_values(found: dict[str, set[str]]) -> Found:
    return {key: tuple(sorted(values)) for key, values in sorted(found.items())}


def imports_of_kinds(modules: list[Module]) -> Found:
    """The modules of one kind that each file outside `kinds/` imports, without `kinds.`"""
    paths = {name_of(module): module.path for module in modules}
    found: dict[str, set[str]] = defaultdict(set)
    for name, targets in graph_of(modules).items():
        for target in targets if not name.startswith("kinds.") else ():
            room, _, inner = target.partition(".")
            if room == "kinds" and inner.partition(".")[0] in FILLERS["kinds"]:
                found[paths[name]].add(inner)
    return sorted_values(found)


def name_of(module: Module) -> str:
    return ".".join(module.place).removesuffix(".__init__")


def mutual_folders(modules: list[Module]) -> Found:
    """The subfolders of each folder that import from it and that it imports from; `patchbay/` itself does not count."""
    folders = {name_of(module): str(PurePosixPath(module.path).parent) for module in modules}
    uses: dict[str, set[str]] = defaultdict(set)
    for name, targets in graph_of(modules).items():
        uses[folders[name]] |= {folders[target] for target in targets} - {folders[name]}
    found: dict[str, set[str]] = defaultdict(set)
    for folder, others in uses.items():
        for other in others if folder != "patchbay" else ():
            if other.startswith(f"{folder}/") and folder in uses.get(other, ()):
                found[folder].add(other.removeprefix(f"{folder}/"))
    return sorted_values(found)


def test_only_listed_files_outside_kinds_import_one_kind() -> None:
    assert imports_of_kinds(read(*CODE)) == KIND_IMPORTS, "ask the row of the kind, or move what others use"


def test_only_listed_folders_import_their_subfolders_and_are_imported_by_them() -> None:
    assert mutual_folders(read(*CODE)) == MUTUAL_FOLDERS, "move what the subfolders use to a lower place"


def test_an_import_of_one_kind_is_found() -> None:
    modules = [
        Module("patchbay/kinds/room/offers.py", "x = 1"),
        Module("patchbay/kinds/registry.py", "from patchbay.kinds.room import offers"),
        Module("patchbay/web/page.py", "from patchbay.kinds.room.offers import x\nfrom patchbay.kinds import registry"),
    ]
    assert imports_of_kinds(modules) == {"patchbay/web/page.py": ("room.offers",)}


def test_a_folder_and_its_subfolder_that_import_each_other_are_found() -> None:
    modules = [
        Module("patchbay/web/app.py", "from patchbay.web.pages import home"),
        Module("patchbay/web/links.py", "x = 1"),
        Module("patchbay/web/pages/home.py", "from patchbay.web.links import x"),
        Module("patchbay/web/api/list.py", "from patchbay.web.links import x"),
    ]
    assert mutual_folders(modules) == {"patchbay/web": ("pages",)}
