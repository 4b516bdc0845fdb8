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
    "decimal.Decimal": {"type": ["string", "number"], "format": "decimal"},
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
