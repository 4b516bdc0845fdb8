"""The names and topics of the store: only `patchbay/topics.py` spells them out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from patchbay import topics
from tests.source_modules import Module, read

METHODS = {
    "names": {"get", "all", "past", "move"},
    "journal": {"append", "read", "last", "tail", "trim"},
    "bus": {"publish", "subscribe"},
}
"""The methods of the store whose first argument is a name or a topic, by the part of the store."""


def spelled_out(argument: ast.expr) -> bool:
    """Whether an argument begins with a literal text instead of a constant of `topics`."""
    if isinstance(argument, ast.JoinedStr):
        return bool(argument.values) and spelled_out(argument.values[0])
    if isinstance(argument, ast.List | ast.Tuple):
        return any(map(spelled_out, argument.elts))
    if isinstance(argument, ast.BinOp):
        return spelled_out(argument.left)
    return isinstance(argument, ast.Constant) and isinstance(argument.value, str) and argument.value != ""


def literal_topics(module: Module) -> Iterator[str]:
    if not any(f"{part}." in module.text for part in METHODS):
        return
    for node in ast.walk(module.tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        first = node.args[0]
        keys = [key for key in first.keys if key is not None] if isinstance(first, ast.Dict) else [first]
        if not any(map(spelled_out, keys)):
            continue
        part = ast.unparse(node.func.value).rpartition(".")[2].lstrip("_")
        if node.func.attr in METHODS.get(part, set()):
            yield f"{module.path}:{node.lineno}: {ast.unparse(node)}"


@pytest.mark.slow
def test_every_name_and_topic_of_the_store_comes_from_one_module() -> None:
    modules = [module for module in read("patchbay/**/*.py") if not module.path.startswith("patchbay/client/")]
    assert [each for module in modules for each in literal_topics(module)] == []


def test_no_two_constants_of_one_kind_are_equal() -> None:
    values = [value for name, value in vars(topics).items() if name.isupper()]
    assert len(values) == len(set(values)) and len(values) > 20
