"""Types known by name with their JSON form: plain types with their schema, generic types by family.

Names are spelled as by `Scope.path`: no prefix for built-ins, `typing` also for names of `collections.abc`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TYPES: Mapping[str, dict[str, Any]] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
    "bytearray": {"type": "string", "contentEncoding": "base64"},
    "types.NoneType": {"type": "null"},
    "typing.Text": {"type": "string"},
    "typing.LiteralString": {"type": "string"},
    "numbers.Number": {"type": "number"},
    "decimal.Decimal": {"anyOf": [{"type": "string", "format": "decimal"}, {"type": "number"}]},
    "datetime.datetime": {"type": "string", "format": "date-time"},
    "datetime.date": {"type": "string", "format": "date"},
    "datetime.time": {"type": "string", "format": "time"},
    "datetime.timedelta": {"type": "string", "format": "duration"},
    "uuid.UUID": {"type": "string", "format": "uuid"},
    "pathlib.Path": {"type": "string", "format": "path"},
    "pathlib.PurePath": {"type": "string", "format": "path"},
    "os.PathLike": {"type": "string", "format": "path"},
    "re.Pattern": {"type": "string", "format": "regex"},
    "ipaddress.IPv4Address": {"type": "string", "format": "ipv4"},
    "ipaddress.IPv6Address": {"type": "string", "format": "ipv6"},
    "pydantic.AnyUrl": {"type": "string", "format": "uri"},
    "pydantic.HttpUrl": {"type": "string", "format": "uri"},
    "pydantic.EmailStr": {"type": "string", "format": "email"},
    "pydantic.PositiveInt": {"type": "integer", "exclusiveMinimum": 0},
    "pydantic.NonNegativeInt": {"type": "integer", "minimum": 0},
    "pydantic.PositiveFloat": {"type": "number", "exclusiveMinimum": 0},
    "pydantic.NonNegativeFloat": {"type": "number", "minimum": 0},
}
RESULT_TYPES: Mapping[str, dict[str, Any]] = {
    name: {key: value for key, value in TYPES[name].items() if key != "format"}
    for name in (
        *("datetime.datetime", "datetime.time", "datetime.timedelta", "re.Pattern"),
        *("ipaddress.IPv6Address", "pydantic.EmailStr", "pydantic.AnyUrl", "pydantic.HttpUrl"),
    )
}
"""Types whose values do not always have their format, so that the schema of a result does not promise it.

A date-time and a time of RFC 3339 have an offset, and a naive one has none; its durations have no sign and no
fraction; a pattern of Python is not always one of JavaScript; an IPv6 address may have a zone; an address of mail or a
URL may have other letters than ASCII. Clients that check formats throw away the whole result otherwise.
"""
TUPLES = frozenset(("tuple", "typing.Tuple"))
ARRAYS = frozenset(
    (
        "list",
        "typing.List",
        "typing.Sequence",
        "typing.MutableSequence",
        "typing.Collection",
        "typing.Iterable",
        "collections.deque",
        "typing.Deque",
    )
)
SETS = frozenset(
    ("set", "frozenset", "typing.Set", "typing.FrozenSet", "typing.MutableSet", "typing.AbstractSet", "typing.KeysView")
)
MAPS = frozenset(
    (
        "dict",
        "typing.Dict",
        "typing.Mapping",
        "typing.MutableMapping",
        "collections.OrderedDict",
        "collections.defaultdict",
        "typing.OrderedDict",
        "typing.DefaultDict",
    )
)
COUNTERS = frozenset(("collections.Counter", "typing.Counter"))
WRAPPERS = frozenset(
    ("typing.Required", "typing.NotRequired", "typing.ReadOnly", "typing.Final", "dataclasses.InitVar")
)
