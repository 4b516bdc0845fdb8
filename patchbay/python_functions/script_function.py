"""The function of a saved script: its signature as the schemas of a tool, read from its syntax tree.

A saved script has one public function. Nothing of the script is imported or run: it runs in the interpreter of scripts,
whose values are those of JSON, so that each annotation has to name a type of JSON.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from patchbay.descriptors import Descriptor
from patchbay.errors import ConfigError
from patchbay.python_functions.functions import FunctionReader, own_nodes, parse_module
from patchbay.python_functions.schemas import alternatives, expression_in
from patchbay.python_functions.scope import FunctionNode, Scope

RUN_SECONDS = 90.0
"""Seconds of one call of a script: more than a run may take, so that the run itself says which limit it reached."""

MAX_CODE_CHARACTERS = 100_000
"""Characters of one script."""

MAX_PARAMETERS = 100
"""Parameters of the function of a saved script."""

MAX_ALIASES = 8
"""Names of types that lead to each other."""

_TYPES = frozenset(
    (
        *("str", "int", "float", "bool", "list", "dict", "object"),
        *("typing.Any", "typing.List", "typing.Dict", "typing.Sequence", "typing.Mapping"),
        *("typing.Literal", "typing.Optional", "typing.Union", "typing.Annotated"),
    )
)
"""What an annotation of a parameter may name: the types that a value of JSON has in Python."""

_RESULT_TYPES = _TYPES | {
    *("tuple", "set", "frozenset", "typing.Tuple", "typing.Set", "typing.FrozenSet", "typing.Iterable"),
    *("datetime.datetime", "datetime.date", "datetime.time"),
}
"""What the annotation of the result may name besides: the types that the interpreter turns into JSON."""


@dataclass(frozen=True, slots=True)
class ScriptFunction:
    """The function of a saved script: the whole script, its name, whether it is to be awaited, the tool it makes."""

    code: str
    name: str
    is_async: bool
    wire: dict[str, Any]


def read_script_function(text: str, where: str) -> ScriptFunction:
    """Return the only public function of a script. `where` names the script in messages.

    Raises ConfigError, whose `path` is the line.
    """
    if len(text) > MAX_CODE_CHARACTERS:
        raise ConfigError(where, "", f"expected at most {MAX_CODE_CHARACTERS} characters; it has {len(text)}")
    module = parse_module(where, text)
    function = _find_function(module, where)
    try:
        scope = Scope.of(module)
        _check_form(function, scope, where)
        found = FunctionReader(where, scope).read_function(function)
    except RecursionError as problem:
        sentence = "nested too deeply to be read; expected simpler Python"
        raise ConfigError(where, f"line {function.lineno}", sentence) from problem
    if not isinstance(found, Descriptor):
        raise ConfigError(where, f"line {function.lineno}", f"{function.name} cannot be a tool: {found}")
    return ScriptFunction(text, function.name, isinstance(function, ast.AsyncFunctionDef), dict(found.wire))


def _find_function(module: ast.Module, where: str) -> FunctionNode:
    """Return the only public function at the top level. Raises ConfigError."""
    public = [one for one in module.body if isinstance(one, FunctionNode) and not one.name.startswith("_")]
    if not public:
        raise ConfigError(where, "line 1", "expected one function, such as `async def close_stale(days: int) -> int:`")
    if len(public) > 1:
        names = f"{public[0].name} and {public[1].name}"
        sentence = f"expected one public function; {names} are two: begin the names of the others with an underscore"
        raise ConfigError(where, f"line {public[1].lineno}", sentence)
    return public[0]


def _check_form(function: FunctionNode, scope: Scope, where: str) -> None:
    """Check what a function of any definition may have, and that of a saved script may not. Raises ConfigError."""

    def refuse(node: ast.AST, sentence: str) -> ConfigError:
        return ConfigError(where, f"line {getattr(node, 'lineno', function.lineno)}", sentence)

    if function.decorator_list:
        raise refuse(function.decorator_list[0], f"expected no decorator: {function.name} is called as it is")
    yields = [node for node in own_nodes(function) if isinstance(node, ast.Yield | ast.YieldFrom)]
    if yields:
        raise refuse(yields[0], f"expected `return` in place of `yield`: {function.name} has one result")
    taken = [*function.args.args, *function.args.kwonlyargs]
    if len(taken) > MAX_PARAMETERS:
        raise refuse(function, f"expected at most {MAX_PARAMETERS} parameters; {function.name} has {len(taken)}")
    for each in taken:
        if each.annotation is None:
            raise refuse(each, f"the parameter {each.arg} has no type: write {each.arg}: str")
        if each.arg == "context":
            raise refuse(each, "expected another name than context: a script has no context of the hub")
        for wrong in _unknown_types(each.annotation, scope, _TYPES):
            raise refuse(wrong, _describe_unknown(f"the type of {each.arg}", wrong))
    for wrong in _unknown_types(function.returns, scope, _RESULT_TYPES) if function.returns is not None else ():
        raise refuse(wrong, _describe_unknown("the type of the result", wrong))


def _describe_unknown(what: str, wrong: ast.expr) -> str:
    known = "str, int, float, bool, None, list[...], dict[str, ...], Literal[...], Any, or a union of these"
    return f"{what} is {ast.unparse(wrong)[:80]!r}, which is no type of JSON here; expected {known}"


def _unknown_types(node: ast.expr, scope: Scope, known: frozenset[str]) -> Iterator[ast.expr]:
    """Yield each part of an annotation that names something else than the types `known`."""
    return _Annotation(scope, known).unknown_types(node, ())


class _Annotation:
    """One annotation. Each alias is read once: aliases that name each other many times would take exponential time."""

    def __init__(self, scope: Scope, known: frozenset[str]) -> None:
        self._scope, self._known = scope, known
        self._read: set[str] = set()

    def unknown_types(self, node: ast.expr, inside: tuple[str, ...]) -> Iterator[ast.expr]:
        """Yield each part of `node` that names something else than a known type; `inside` are the aliases around it."""
        match node:
            case ast.Constant(value=None):
                return
            case ast.Constant(value=str(text)) if (inner := expression_in(text)) is not None:
                ast.copy_location(inner, node)
                yield from (node for _ in self.unknown_types(inner, inside))
            case ast.BinOp(op=ast.BitOr()):
                for part in alternatives(node):
                    yield from self.unknown_types(part, inside)
            case ast.Subscript():
                yield from self._in_subscript(node, inside)
            case ast.Name() | ast.Attribute() if self._scope.path(node) in self._known:
                return
            case ast.Name(id=name) if isinstance(alias := self._scope.local(node), ast.expr):
                if name in inside or len(inside) >= MAX_ALIASES:
                    yield node
                elif name not in self._read:
                    yield from (node for _ in self.unknown_types(alias, (*inside, name)))
                    self._read.add(name)
            case _:
                yield node

    def _in_subscript(self, node: ast.Subscript, inside: tuple[str, ...]) -> Iterator[ast.expr]:
        yield from self.unknown_types(node.value, inside)
        path, inner = self._scope.path(node.value), node.slice
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        shown = () if path == "typing.Literal" else parts[:1] if path == "typing.Annotated" else parts
        for part in shown:
            if not (isinstance(part, ast.Constant) and part.value is ...):
                yield from self.unknown_types(part, inside)
