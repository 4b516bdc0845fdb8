"""Convert JSON arguments to the Python values that a function's annotations require.

Parameters of plain JSON types are passed unchanged. Others (dates, enumerations, dataclasses, sets, ...) get a
converter, built once per function. The arguments fit the tool's schema already; an error here is the tool's own
failure.
"""

from __future__ import annotations

import inspect
import os
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NotRequired, Required, Union, get_args, get_origin

from patchbay.errors import ToolFailed
from patchbay.kinds.python.content_files import CONTENT_FORMAT, ContentFiles

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic.fields import FieldInfo

PLAIN = (Any, object, str, int, float, bool, None, type(None), list, dict, inspect.Parameter.empty)
CONTEXT = "context"
"""The parameter through which a function receives its Context; it is never an argument."""


class Function:
    """A function with the converters of its JSON arguments."""

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name = name
        self.call = call
        parameters = dict(_signature(name, call).parameters)
        self.takes_context = parameters.pop(CONTEXT, None) is not None
        self._open = any(found.kind is found.VAR_KEYWORD for found in parameters.values())
        named = {
            key: found
            for key, found in parameters.items()
            if found.kind not in (found.VAR_KEYWORD, found.VAR_POSITIONAL)
        }
        hints = annotations_of(call)
        self._fields = find_fields({key: found.default for key, found in named.items()}, hints)
        shown = {key: field.name for key, field in self._fields.items()}
        self._names = {shown.get(key, key): None for key in named}.keys()
        self._keys = {name: key for key, name in shown.items() if name != key}
        self._defaults = {key: field.info for key, field in self._fields.items() if field.makes_default}
        missing = {key for key, found in named.items() if _is_missing(found.default) and key not in self._defaults}
        self._required = {shown.get(key, key) for key in missing}
        types = {key: self._fields[key].annotation if key in self._fields else hints.get(key, Any) for key in named}
        self._files = [key for key, field in self._fields.items() if field.is_content and is_path(field.annotation)]
        self._converters = {
            key: made for key, each in types.items() if key not in self._files and (made := converter(each)) is not None
        }

    @property
    def is_plain(self) -> bool:
        """Whether its arguments are JSON values as they come, and it takes no context."""
        return not self._converters and not self.takes_context and not self._fields

    def bind(self, arguments: Mapping[str, Any], files: ContentFiles | None = None) -> dict[str, Any]:
        """Return keyword arguments for the function; `files` takes the contents that it wants as files.

        Raises ToolFailed that names the wrong argument.
        """
        if not self._open and not arguments.keys() <= self._names:
            extra = ", ".join(repr(key) for key in arguments if key not in self._names)
            known = ", ".join(self._names) or "no arguments"
            raise ToolFailed(f"unexpected argument {extra}; {self.name} takes {known}")
        if not self._required <= arguments.keys():
            missing = ", ".join(repr(key) for key in self._names if key in self._required and key not in arguments)
            raise ToolFailed(f"missing argument {missing} of {self.name}")
        bound = (
            {self._keys.get(name, name): value for name, value in arguments.items()} if self._keys else {**arguments}
        )
        for key, adapter in self._converters.items():
            if key in bound:
                bound[key] = _convert(key, bound[key], adapter)
        for key in self._files:
            if key in bound:
                assert files is not None, "a function that takes files is not pure, so it is not called directly"
                bound[key] = files.write(key, bound[key])
        for key, info in self._defaults.items():
            if key not in bound:
                bound[key] = info.get_default(call_default_factory=True, validated_data=dict(bound))
        return bound


class ParameterInfo(NamedTuple):
    """What `Field(...)` says about a parameter: the name of its argument, its type with its limits, its default.

    `makes_default` says that the hub gives the parameter the default of `info`, because Python does not. `is_content`
    says that callers may give its value by a link: it has the format `cid`.
    """

    name: str
    annotation: Any
    info: FieldInfo
    makes_default: bool
    is_content: bool


def find_fields(defaults: Mapping[str, Any], hints: Mapping[str, Any]) -> dict[str, ParameterInfo]:
    """Return what `Field(...)` of pydantic says about parameters, as a default or in `Annotated`, by parameter.

    A program that has such a value has loaded pydantic. `discovery/parameter_fields.py` reads the same from syntax.
    """
    loaded = sys.modules.get("pydantic.fields")
    if loaded is None:
        return {}
    found = {}
    for key, default in defaults.items():
        hint = hints.get(key, Any)
        notes = [note for note in getattr(hint, "__metadata__", ()) if isinstance(note, loaded.FieldInfo)]
        is_default = isinstance(default, loaded.FieldInfo)
        infos = [*notes, *([default] if is_default else [])]
        if infos:
            others = [note for note in getattr(hint, "__metadata__", ()) if not isinstance(note, loaded.FieldInfo)]
            limits = [*others, *(limit for info in infos for limit in info.metadata)]
            base = get_args(hint)[0] if get_origin(hint) is typing.Annotated else hint
            # Without the fields themselves: pydantic warns of an alias outside a model.
            annotation = typing.Annotated[(base, *limits)] if limits else base
            giving = [info for info in infos if not info.is_required()]
            makes_default = bool(giving) and (is_default or default is inspect.Parameter.empty)
            found[key] = ParameterInfo(
                _name_of(key, infos), annotation, (giving or infos)[-1], makes_default, any(map(_is_content, infos))
            )
    return found


def _is_content(info: FieldInfo) -> bool:
    extra = info.json_schema_extra
    return isinstance(extra, dict) and extra.get("format") == CONTENT_FORMAT


def is_path(annotation: Any) -> bool:
    """Whether a parameter of this type takes a path, a list of paths, or None."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType, list, typing.Annotated):
        parts = inner[:1] if origin is typing.Annotated else inner
        return any(is_path(part) for part in parts)
    return annotation in (Path, PurePath, os.PathLike)


def _name_of(key: str, infos: Sequence[FieldInfo]) -> str:
    """Return the name of an argument: the alias of the last `Field(...)` that has one, else that of the parameter."""
    validation = [info.validation_alias for info in infos if info.validation_alias is not None]
    plain = [info.alias for info in infos if info.alias is not None]
    return next((one for one in (*validation[-1:], *plain[-1:]) if isinstance(one, str) and one), key)


def _is_missing(default: Any) -> bool:
    """Whether the argument has to be given: it has no default, or `Field(...)` without a default value."""
    loaded = sys.modules.get("pydantic.fields")
    is_field = loaded is not None and isinstance(default, loaded.FieldInfo)
    return default is inspect.Parameter.empty or (is_field and default.is_required())


def _signature(name: str, call: Callable[..., Any]) -> inspect.Signature:
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError) as problem:
        raise ToolFailed(f"{name} cannot be called with named arguments: {problem}") from problem
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ToolFailed(f"{name} cannot be called with named arguments: {parameter.name!r} is positional-only")
    return signature


def _convert(name: str, value: Any, adapter: TypeAdapter[Any]) -> Any:
    from pydantic import ValidationError
    from pydantic_core import to_json

    try:
        return adapter.validate_json(to_json(value))
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        place = "".join(f"[{step!r}]" for step in first["loc"])
        message = first["msg"][:1].lower() + first["msg"][1:]
        raise ToolFailed(f"argument {name!r}{place}: {message}; got {str(first['input'])[:80]!r}") from problem


def annotations_of(call: Callable[..., Any]) -> dict[str, Any]:
    """Return annotations as types, without those that cannot be resolved (imported for type checkers only)."""
    call = inspect.unwrap(call)
    try:
        return typing.get_type_hints(call, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return dict(_resolve_one_by_one(getattr(call, "__annotations__", {}), getattr(call, "__globals__", {})))


def _resolve_one_by_one(annotations: Mapping[str, Any], names: dict[str, Any]) -> typing.Iterator[tuple[str, Any]]:
    for key, annotation in annotations.items():
        holder = types.SimpleNamespace(__annotations__={key: annotation})
        try:
            yield key, typing.get_type_hints(holder, names, include_extras=True)[key]
        except (NameError, TypeError, AttributeError, SyntaxError):
            continue


def converter(annotation: Any) -> TypeAdapter[Any] | None:
    """Return a converter from JSON to this type; None where JSON needs no conversion, or for an unsupported type."""
    if is_plain(annotation):
        return None
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter

    annotation = _readable_by_pydantic(annotation)
    try:
        return TypeAdapter(annotation, config=ConfigDict(val_json_bytes="base64"))
    except PydanticUserError:
        pass  # a model, dataclass or TypedDict has its own configuration and accepts no other
    try:
        return TypeAdapter(annotation)
    except PydanticUserError:
        return None


def is_plain(annotation: Any) -> bool:
    """Whether every value of this type is a JSON value already, in the form that a function expects."""
    if any(annotation is kind for kind in PLAIN):
        return True
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return all(value is None or type(value) in (str, int, bool) for value in inner)
    if origin in (Union, types.UnionType, list, dict):
        return all(is_plain(part) for part in inner) and (origin is not dict or inner[0] in (str, Any))
    if origin is typing.Annotated:
        return is_plain(inner[0]) and all(isinstance(note, str) for note in inner[1:])
    return False


def _readable_by_pydantic(annotation: Any) -> Any:
    """Return the type with each TypedDict rebuilt in the form that pydantic reads on this Python (below 3.12)."""
    if isinstance(annotation, type) and typing.is_typeddict(annotation):
        return _rebuild_typed_dict(annotation)
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is None or origin is Literal:
        return annotation
    if origin is typing.Annotated:
        return typing.Annotated[(_readable_by_pydantic(inner[0]), *inner[1:])]
    parts = tuple(_readable_by_pydantic(part) for part in inner)
    if parts == inner:
        return annotation
    return Union[parts] if origin in (Union, types.UnionType) else origin[parts]  # noqa: UP007 (built at run time)


def _rebuild_typed_dict(annotation: Any) -> Any:
    import typing_extensions

    fields = {}
    for key, hint in typing.get_type_hints(annotation, include_extras=True).items():
        # `__required_keys__` misses a NotRequired inside a string annotation, so the hint is checked first.
        required = key in annotation.__required_keys__
        if get_origin(hint) in (Required, NotRequired):
            required, hint = get_origin(hint) is Required, get_args(hint)[0]
        fields[key] = Required[_readable_by_pydantic(hint)] if required else NotRequired[_readable_by_pydantic(hint)]
    return typing_extensions.TypedDict(annotation.__name__, fields)  # type: ignore[operator]
