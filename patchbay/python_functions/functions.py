"""Python definitions: the public functions of a module as tools, read from its syntax tree.

Nothing is imported or run. A function that cannot be called with a JSON object of named arguments is not listed, and a
Problem gives the reason.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from io import BytesIO
from typing import Any

import jsonschema_rs
import orjson

from patchbay.descriptors import NAME, Descriptor, Discovery, Problem
from patchbay.environments.imports import foreign_imports
from patchbay.environments.requirements import read_script_block
from patchbay.errors import ConfigError, TooLarge
from patchbay.python_functions.annotations import find_unresolved_names
from patchbay.python_functions.apps import read_apps
from patchbay.python_functions.constraints import with_constraints
from patchbay.python_functions.docstrings import Doc, read_docstring
from patchbay.python_functions.event_types import read_event_types
from patchbay.python_functions.parameter_fields import field_of
from patchbay.python_functions.schema_definitions import alternatives_of, with_default, with_definitions
from patchbay.python_functions.schema_shapes import Schema
from patchbay.python_functions.schemas import Types, expression_in
from patchbay.python_functions.scope import FunctionNode, Scope
from patchbay.python_functions.sdk_servers import SdkServers
from patchbay.python_functions.syntax import parse_source

NOT_PARAMETERS = frozenset(("context",))
"""Parameters that the hub fills itself."""

MAX_DESCRIPTOR_BYTES = 8 * 1024 * 1024
"""Maximum bytes of all descriptors of one definition."""

MAX_SHOWN_LINE_CHARACTERS = 80
"""Maximum characters of a wrong line that a message shows."""

LAZY = frozenset(
    (
        "typing.Iterator",
        "typing.Iterable",
        "typing.Generator",
        "typing.AsyncIterator",
        "typing.AsyncIterable",
        "typing.AsyncGenerator",
        "typing.Awaitable",
        "typing.Coroutine",
    )
)
"""Return types with several or later values, for which there is no schema of one result."""

CONTENT_TYPES = frozenset(("text", "image", "audio", "resource", "resource_link"))
TEXTUAL = frozenset(("string", "null"))
VAGUE: tuple[Schema, ...] = ({"type": "object"}, {"type": "array"})


def discover_functions(name: str, text: str) -> Discovery:
    """Return the tools of a Python definition. Raises ConfigError when it is not valid, or its block `# /// script`."""
    module = parse_module(name, text)
    read_script_block(text.encode(), name)
    scope = Scope.of(module)
    found = FunctionReader(name, scope).read(read_docstring(ast.get_docstring(module, clean=False)).first)
    problems = (*find_unresolved_names(module, scope, text), *found.problems)
    return replace(found, problems=problems, imports=foreign_imports(module), functions=functions_of(module))


def return_line(source: bytes, target: Mapping[str, Any]) -> int | None:
    """Return the line of the only `return` of a tool's function, else the line of its `def`; None without it."""
    try:
        body = parse_source(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for one in body:
        if isinstance(one, FunctionNode) and one.name == target.get("function"):
            returns = [node for node in own_nodes(one) if isinstance(node, ast.Return) and node.value is not None]
            return returns[0].lineno if len(returns) == 1 else one.lineno
    return None


def functions_of(module: ast.Module) -> dict[str, tuple[str, ...]]:
    """Return every top-level function of a module, with the names of its parameters in order."""
    functions = [one for one in module.body if isinstance(one, FunctionNode)]
    return {one.name: tuple(arg.arg for arg in (*one.args.args, *one.args.kwonlyargs)) for one in functions}


def parse_module(name: str, text: str) -> ast.Module:
    """Return the syntax tree, after the compiler's checks. Raises ConfigError that names the line."""
    _check_coding(name, text)
    try:
        module = parse_source(text, name)
        # Only the compiler refuses `return` outside a function or two parameters of one name.
        compile(module, name, "exec", dont_inherit=True)
    except SyntaxError as problem:
        line = (problem.text or "").strip()[:MAX_SHOWN_LINE_CHARACTERS]
        sentence = f"not valid Python: {problem.msg}" + (f" in {line!r}" if line else "")
        raise ConfigError(name, f"line {problem.lineno or 1}", sentence) from problem
    except (ValueError, OverflowError) as problem:
        raise ConfigError(name, "line 1", f"not valid Python: {problem}") from problem
    except (RecursionError, MemoryError) as problem:
        raise ConfigError(name, "line 1", "nested too deeply to be read; expected simpler Python") from problem
    return module


def _check_coding(name: str, text: str) -> None:
    """Check the coding line: Python follows it, the hub reads UTF-8. Raises ConfigError where the two differ."""
    data = text.encode("utf-8", "surrogatepass")
    try:
        coding, _ = tokenize.detect_encoding(BytesIO(data).readline)
        same = data.decode(coding, "surrogatepass" if coding == "utf-8" else "strict") == text
    except (SyntaxError, UnicodeError, LookupError):  # LookupError: `rot13` and others are codecs of no text
        same = False
    if not same:
        raise ConfigError(name, "line 1", "expected Python in UTF-8: its coding line names another; remove that line")


class FunctionReader:
    """Reads the functions of one module."""

    def __init__(self, server: str, scope: Scope) -> None:
        self._server = server
        self._scope = scope
        self._types = Types(scope)
        self._sdk = SdkServers(scope)
        self._left = MAX_DESCRIPTOR_BYTES

    def read(self, description: str) -> Discovery:
        """Return every listed function as a descriptor and every other one as a problem, both in source order.

        A name that begins with an underscore says that its author does not want it listed; that is not a problem. A
        function that decorates another one of the module is a helper, and not a tool; so is one beside the entries of
        an MCP server that the module makes (`sdk_servers.py`).
        """
        helpers = self._scope.decorators()
        descriptors: list[Descriptor] = []
        problems = list(self._sdk.problems(self._server))
        for function in self._scope.functions():
            if function.name.startswith("_") or function.name in helpers or self._sdk.is_private(function):
                continue
            tool = self.read_function(function)
            if isinstance(tool, Descriptor):
                descriptors.append(tool)
            else:
                problems.append(Problem(function.name, tool, function.lineno))
        descriptors, faults = read_apps(self._scope, descriptors)
        problems += faults
        types, faults = read_event_types(self._scope, self._types)
        descriptors += types
        problems += faults
        return Discovery(tuple(descriptors), tuple(problems), description)

    def read_function(self, function: FunctionNode) -> Descriptor | str:
        """Return a function as a descriptor, or the sentence that explains why it is not listed."""
        name = self._server if function.name == "main" else function.name
        reason = self._sdk.explain(function) or self._unlistable(function) or self._misnamed(function, name)
        if reason:
            return reason
        streams = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in own_nodes(function))
        try:
            wire = self._wire(name, function, streams)
            reason = self._unusable(wire)
        except TooLarge as problem:
            reason = problem.message
        if reason:
            return reason
        target = {"function": function.name, **({"streams": True} if streams else {})}
        return Descriptor("tool", name, wire, target, "discovered")

    def _unlistable(self, function: FunctionNode) -> str:
        taken = function.args
        if taken.posonlyargs:
            names = ", ".join(each.arg for each in taken.posonlyargs)
            return f"it takes positional-only parameters ({names}), and callers can only give arguments by name"
        if taken.vararg:
            return f"it takes *{taken.vararg.arg}, and callers can only give arguments by name"
        if taken.kwarg:
            return f"it takes **{taken.kwarg.arg}, so its arguments cannot be described; expected named parameters"
        if taken.args and taken.args[0].arg == "self":
            return "its first parameter is self, which only a method of a class has: remove it"
        arguments = Counter(field_of(each, default, self._scope).name for each, default in parameters(function))
        twice = [name for name, count in arguments.items() if count > 1]
        return f"two of its arguments have the name {twice[0]!r}; expected another alias" if twice else ""

    def _misnamed(self, function: FunctionNode, name: str) -> str:
        if not re.fullmatch(NAME, name):
            return f"{name!r} is not a tool name; expected 1 to 128 ASCII letters, digits, dots, dashes or underscores"
        if function.name == "main" and any(other.name == name != "main" for other in self._scope.functions()):
            return f"it would be called {name!r} like the server, and another function has this name"
        return ""

    def _unusable(self, wire: Mapping[str, Any]) -> str:
        """Return why a tool cannot be sent or its arguments cannot be checked; empty when both work."""
        try:
            self._left -= len(orjson.dumps(wire))
            for schema in (wire["inputSchema"], wire.get("outputSchema", {})):
                jsonschema_rs.Draft202012Validator(schema, pattern_options=jsonschema_rs.RegexOptions())
        except (orjson.JSONEncodeError, jsonschema_rs.ValidationError) as problem:
            reason = str(problem).partition("\n")[0]
            return f"its schema would not be valid: {reason}"
        return (
            f"the tools of this definition are too large together; at most {MAX_DESCRIPTOR_BYTES} bytes"
            if self._left < 0
            else ""
        )

    def _wire(self, name: str, function: FunctionNode, streams: bool) -> dict[str, Any]:
        if self._left < 0:
            raise TooLarge(f"the tools of this definition are too large together; at most {MAX_DESCRIPTOR_BYTES} bytes")
        doc = read_docstring(ast.get_docstring(function, clean=False))
        described = {"description": doc.first} if doc.first else {}
        output = None if streams or answers_in_blocks(function) else self._output(function, doc)
        return {
            "name": name,
            **described,
            "inputSchema": self._input(function, doc),
            **({"outputSchema": output} if output else {}),
        }

    def _input(self, function: FunctionNode, doc: Doc) -> Schema:
        given = {each.arg: field_of(each, default, self._scope) for each, default in parameters(function)}
        notes = {each.arg: each.annotation for each, _ in parameters(function)}
        schemas, shared = self._types.schema(notes)
        properties: dict[str, Schema] = {}
        for name, field in given.items():
            value = self._types.member_value(field.default)
            schema = with_constraints(schemas[name], field.keywords)
            properties[field.name] = with_default(_described(schema, doc.parameters.get(name)), value, shared)
        required = [field.name for field in given.values() if field.is_required]
        return {
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
            "additionalProperties": False,
            **({"$defs": shared} if shared else {}),
        }

    def _output(self, function: FunctionNode, doc: Doc) -> Schema | None:
        """Return the schema of a result; None where a result may be text or null, or where the type is too vague.

        With an output schema, a client refuses a result without structured content (MCP specification, server/tools).
        """
        note = function.returns
        if isinstance(note, ast.Constant) and isinstance(note.value, str):
            note = expression_in(note.value)
        head = note.value if isinstance(note, ast.Subscript) else note
        if head is None or self._scope.path(head) in LAZY:
            return None
        schemas, shared = self._types.schema({"result": note}, closed=False)
        schema = with_definitions(schemas["result"], shared)
        if any(may_be_text(leaf) for leaf in alternatives_of(schema, shared)) or schema in VAGUE:
            return None
        return _described(schema, doc.returns)


def _described(schema: Schema, words: str | None) -> Schema:
    """Return a schema with the words of the docstring, unless its annotation has some: `Annotated[str, "..."]`."""
    return {**schema, "description": words} if words and "description" not in schema else schema


def parameters(function: FunctionNode) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Yield the parameters that callers fill, each with its default or None."""
    taken = function.args
    missing = len(taken.args) - len(taken.defaults)
    for place, each in enumerate(taken.args):
        if each.arg not in NOT_PARAMETERS:
            yield each, taken.defaults[place - missing] if place >= missing else None
    for each, default in zip(taken.kwonlyargs, taken.kw_defaults, strict=True):
        if each.arg not in NOT_PARAMETERS:
            yield each, default


INNER_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def own_nodes(function: FunctionNode) -> Iterator[ast.AST]:
    """Yield the nodes of a function's own body, without the insides of functions and classes in it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, INNER_SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def own_statements(function: FunctionNode) -> Iterator[ast.AST]:
    """Yield the nodes of a function's own body that are not part of an expression: most nodes are."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, INNER_SCOPES):
            waiting.extend(each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr))


def answers_in_blocks(function: FunctionNode) -> bool:
    """Whether a function visibly returns `{"output": ...}` or a content block, which are not structured content."""
    for node in own_statements(function):
        if isinstance(node, ast.Return):
            values = node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value]
            if any(_is_block(value) for value in values):
                return True
    return False


def _is_block(node: ast.expr | None) -> bool:
    if not isinstance(node, ast.Dict):
        return False
    words = {
        key.value: value.value if isinstance(value, ast.Constant) else None
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant)
    }
    return {"output", "content_type"} <= set(words) or words.get("type") in CONTENT_TYPES


def may_be_text(leaf: Schema) -> bool:
    """Whether a value of a schema without branches may be text, null or of any type."""
    named = leaf.get("type", "string")
    return bool(TEXTUAL & ({named} if isinstance(named, str) else set(named)))
