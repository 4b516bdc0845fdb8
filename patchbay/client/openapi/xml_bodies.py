"""A value as XML, by the `xml` objects of its schema: names, attributes, wrapped lists, namespaces.

Sources: OpenAPI 3.0.4, 3.1.1 and 3.2.0, XML Object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from patchbay.client.openapi.references import References, get_reference
from patchbay.client.openapi.styles import format_value
from patchbay.errors import InvalidParams

DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>'
DEFAULT_ROOT = "root"
_NAME = re.compile(r"[^\W\d][\w.-]*(:[^\W\d][\w.-]*)?")
"""A name of XML, with or without a prefix; names with other characters that XML allows do not occur in documents."""

_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""Characters that XML cannot have, even escaped (XML 1.0 section 2.2)."""

MAX_PARTS = 64
"""Parts of compositions in which the schema of a property is searched."""


def encode_xml(value: Any, schema: Any, references: References) -> bytes:
    """Encode a value as a document. The root is named by `xml.name`, else after the schema.

    Raises InvalidParams for a name or a text that XML cannot have.
    """
    writer = _XmlWriter(references)
    name = writer.get_name(schema, (get_reference(schema) or "").rpartition("/")[2] or DEFAULT_ROOT)
    return (DECLARATION + "".join(writer.write(name, value, schema))).encode()


class _XmlWriter:
    def __init__(self, references: References) -> None:
        self._references = references

    def get_name(self, schema: Any, default: str) -> str:
        """Return the name of an element or an attribute, with its prefix."""
        xml = self._get_xml(schema)
        name, prefix = str(xml.get("name") or default), xml.get("prefix")
        whole = f"{prefix}:{name}" if prefix else name
        if not _NAME.fullmatch(whole):
            raise InvalidParams(f"{whole!r:.80}: expected a name that an XML element can have")
        return whole

    def write(self, name: str, value: Any, schema: Any) -> Iterator[str]:
        """Write one element, or the elements of a list."""
        if isinstance(value, list):
            yield from self._write_list(name, value, schema)
            return
        opening = f"{name}{self._declare_namespace(schema)}"
        if not isinstance(value, Mapping):
            text = "" if value is None else _escape(value)
            yield f"<{opening}>{text}</{name}>"
            return
        properties = self._collect_properties(schema)
        attributes, children = "", []
        for key, one in value.items():
            inner = properties.get(key, {})
            xml, inner_name = self._get_xml(inner), self.get_name(inner, key)
            if xml.get("attribute") is True or xml.get("nodeType") == "attribute":
                attributes += f" {inner_name}={_quote(one)}"
            elif xml.get("nodeType") in ("text", "cdata"):
                children.append(_escape(one))
            else:
                children += self.write(inner_name, one, inner)
        yield f"<{opening}{attributes}>{''.join(children)}</{name}>"

    def _write_list(self, name: str, value: list[Any], schema: Any) -> Iterator[str]:
        found = self._references.find(schema)
        items = found.get("items", {}) if isinstance(found, dict) else {}
        is_wrapped = self._get_xml(schema).get("wrapped") is True
        item_name = self.get_name(items, name)
        written = "".join(piece for one in value for piece in self.write(item_name, one, items))
        yield f"<{name}{self._declare_namespace(schema)}>{written}</{name}>" if is_wrapped else written

    def _declare_namespace(self, schema: Any) -> str:
        xml = self._get_xml(schema)
        if not isinstance(xml.get("namespace"), str):
            return ""
        prefix = f":{xml['prefix']}" if xml.get("prefix") else ""
        return f" xmlns{prefix}={_quote(xml['namespace'])}"

    def _get_xml(self, schema: Any) -> Mapping[str, Any]:
        found = self._references.find(schema)
        xml = found.get("xml") if isinstance(found, dict) else None
        return xml if isinstance(xml, dict) else {}

    def _collect_properties(self, schema: Any) -> dict[str, Any]:
        """Collect the properties of a schema and of the parts of its compositions."""
        found: dict[str, Any] = {}
        left = [schema]
        for _ in range(MAX_PARTS):
            if not left:
                break
            one = self._references.find(left.pop(0))
            if isinstance(one, dict):
                properties = one.get("properties")
                found = {**(properties if isinstance(properties, dict) else {}), **found}
                left += [part for word in ("allOf", "anyOf", "oneOf") for part in one.get(word) or ()]
        return found


def _escape(value: Any) -> str:
    """Return a value as text of an element. Raises InvalidParams."""
    text = format_value(value)
    if _NO_TEXT.search(text):
        raise InvalidParams(f"{text!r:.80}: expected text without control characters, which XML cannot have")
    return escape(text, quote=False).replace("\r", "&#13;")


def _quote(value: Any) -> str:
    """Return a value as the quoted value of an attribute. Raises InvalidParams."""
    text = _escape(value).replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;")
    return f'"{text}"'
