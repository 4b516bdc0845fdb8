"""Values in the styles of OpenAPI: in a path, a query, a header, a cookie and a form.

A null is left out, as RFC 6570 leaves out what is undefined. Items and keys are percent-encoded one by one, so that a
separator inside one of them does not separate. `deepObject` is defined for one level only; deeper values are written
as Rails, PHP, `qs` and Stripe read them: `a[b][c]=1`, `a[]=1` for each plain item of a list, `a[0][b]=1` for objects.

Sources: OpenAPI 3.0.4, 3.1.1 and 3.2.0, style values, appendices B to E; OpenAPI 2.0, collectionFormat; RFC 6570;
RFC 3986.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

import orjson

Pair = tuple[str, str]

REPEATED = "&"
"""The separator of a list whose key is repeated (`explode`, `collectionFormat: multi`)."""

HARMLESS_RESERVED_CHARACTERS = ":/?@!$'()*,;"
"""Reserved characters that cannot end a value in a query (RFC 3986 section 3.4): all but `&=+#[]`."""

COOKIE_CHARACTERS = "!#$%&'()*+/:<=>?@[]^`{|}"
"""Characters that the value of a cookie may have (RFC 6265 section 4.1.1), beside the unreserved ones."""

FORM_MEDIA_TYPE = "application/x-www-form-urlencoded"
_COLLECTION_SEPARATORS = {"csv": ",", "ssv": " ", "tsv": "\t", "pipes": "|", "multi": REPEATED}
_STYLE_SEPARATORS = {"spaceDelimited": " ", "pipeDelimited": "|"}
_JSON = re.compile(r"application/json|.*\+json")


@dataclass(frozen=True, slots=True)
class Style:
    """How a value is written. `separator` is between the items of a list; REPEATED repeats the key.

    `kind` is that of OpenAPI: `form`, `simple`, `label`, `matrix`, `deepObject`, `cookie` and others. With `media_type`
    the value is content of that type. `allows_reserved` sends reserved characters as they are, where they cannot change
    the query.
    """

    kind: str = "form"
    separator: str = REPEATED
    media_type: str = ""
    allows_reserved: bool = False

    @property
    def is_exploded(self) -> bool:
        """Whether each item stands alone."""
        return self.separator == REPEATED


def parse_style(row: Mapping[str, Any], default: str) -> Style:
    """Parse `style`, `explode` and `allowReserved` of a parameter or an encoding; `default` is its style."""
    kind = row.get("style") if isinstance(row.get("style"), str) else default
    is_exploded = row.get("explode", kind in ("form", "cookie")) is True
    separator = REPEATED if is_exploded else _STYLE_SEPARATORS.get(str(kind), ",")
    return Style(str(kind), separator, allows_reserved=row.get("allowReserved") is True)


def parse_collection_format(row: Mapping[str, Any], default: str) -> Style:
    """Parse `collectionFormat` of a parameter of Swagger 2."""
    return Style(default, _COLLECTION_SEPARATORS.get(row.get("collectionFormat", "csv"), ","))


def get_bare_media_type(media_type: str) -> str:
    """Return a media type without its parameters, in lower case."""
    return media_type.partition(";")[0].strip().lower()


def is_json_media_type(media_type: str) -> bool:
    """Whether a media type is JSON."""
    return _JSON.fullmatch(get_bare_media_type(media_type)) is not None


def encode_json(value: Any) -> bytes:
    """Encode a value as JSON without spaces."""
    try:
        return orjson.dumps(value)
    except TypeError:  # integers beyond 64 bits, which orjson does not write
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def format_value(value: Any) -> str:
    """Return a value as text; what is not text or a number is JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list | bool) or value is None:
        return encode_json(value).decode()
    return str(value)


def format_content(value: Any, media_type: str) -> str:
    """Return a value as content of a media type: JSON, a form, or text."""
    if is_json_media_type(media_type):
        return encode_json(value).decode()
    if get_bare_media_type(media_type) == FORM_MEDIA_TYPE and isinstance(value, dict):
        return urlencode([pair for key, one in value.items() for pair in list_pairs(key, one, Style())])
    return format_value(value)


def encode_query(name: str, value: Any, style: Style) -> Iterator[str]:
    """Encode a value as pairs `name=value` of a query or a form."""
    safe = HARMLESS_RESERVED_CHARACTERS if style.allows_reserved else ""
    is_joined = not style.is_exploded and style.kind != "deepObject" and not style.media_type
    if is_joined and isinstance(value, dict | list):
        separator = "," if style.separator == "," else quote(style.separator, safe="")
        pieces = (quote(piece, safe=safe) for piece in _list_pieces(value))
        yield f"{quote_plus(name)}={separator.join(pieces)}"
        return
    for key, text in list_pairs(name, value, style):
        yield f"{quote_plus(key)}={quote_plus(text, safe=safe)}"


def list_pairs(name: str, value: Any, style: Style) -> Iterator[Pair]:
    """List the names and texts of a value, without encoding."""
    if value is None:
        return
    if style.media_type:
        yield name, format_content(value, style.media_type)
    elif style.kind == "deepObject":
        yield from _list_deep_pairs(name, value)
    elif isinstance(value, dict) and style.is_exploded:
        yield from ((key, format_value(one)) for key, one in value.items() if one is not None)
    elif isinstance(value, list) and style.is_exploded:
        yield from ((name, format_value(one)) for one in value)
    else:
        yield name, style.separator.join(_list_pieces(value))


def encode_path(name: str, value: Any, style: Style) -> str:
    """Encode a value in a path: everything but unreserved characters is percent-encoded."""
    if style.media_type:
        return quote(format_content(value, style.media_type), safe="")
    pieces = [quote(piece, safe="") for piece in _list_pieces(value)]
    if style.is_exploded and isinstance(value, dict):
        pieces = [f"{key}={text}" for key, text in zip(pieces[::2], pieces[1::2], strict=True)]
    if style.kind == "label":
        return "." + (("." if style.is_exploded else ",").join(pieces))
    if style.kind == "matrix":
        key = quote(name, safe="")
        if style.is_exploded:
            return "".join(f";{one}" if isinstance(value, dict) else f";{key}={one}" for one in pieces)
        return f";{key}={','.join(pieces)}"
    return ("," if style.is_exploded or style.separator == "," else quote(style.separator, safe="")).join(pieces)


def format_header(value: Any, style: Style) -> str:
    """Return a value as the text of a header."""
    if style.media_type:
        return format_content(value, style.media_type)
    if isinstance(value, dict) and style.is_exploded:
        return ",".join(f"{key}={format_value(one)}" for key, one in value.items())
    return (style.separator if style.separator in (" ", "|") else ",").join(_list_pieces(value))


def list_cookies(name: str, value: Any, style: Style) -> list[str]:
    """List the cookies `name=value` of a value. Style `cookie` (OpenAPI 3.2) encodes only what cookies cannot have."""
    safe = COOKIE_CHARACTERS if style.kind == "cookie" else ""
    return [f"{quote(key, safe='')}={quote(text, safe=safe)}" for key, text in list_pairs(name, value, style)]


def _list_pieces(value: Any) -> list[str]:
    """List the items of a list, or the names and values of an object in turn."""
    if isinstance(value, dict):
        return [piece for key, one in value.items() for piece in (key, format_value(one))]
    return [format_value(one) for one in value] if isinstance(value, list) else [format_value(value)]


def _list_deep_pairs(name: str, value: Any) -> Iterator[Pair]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _list_deep_pairs(f"{name}[{key}]", one)
    elif isinstance(value, list):
        is_numbered = any(isinstance(one, dict | list) for one in value)
        for number, one in enumerate(value):
            yield from _list_deep_pairs(f"{name}[{number if is_numbered else ''}]", one)
    elif value is not None:
        yield name, format_value(value)
