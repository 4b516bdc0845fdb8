"""Digests of tools as SEP-1766 describes them, without any code of the package and without its JSON libraries.

    python tests/pins/independent_digests.py < tools.json

reads a list of tools as in the result of `tools/list` and prints `sha256:<digest> <name>` for each. The digest is
SHA-256 over canonical JSON (RFC 8785) of name, description, inputSchema and outputSchema; absent and null fields are
left out. The package uses the library rfc8785; this file writes the canonical form itself: members in the order of
their UTF-16 code units, no spaces, numbers as ECMAScript writes them.
"""

import hashlib
import json
import sys
from decimal import Decimal

ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def write_text(text: str) -> str:
    """Write a string: only quotes, backslashes and control characters are escaped (RFC 8785, section 3.2.2.2)."""
    letters = (ESCAPES.get(one) or (f"\\u{ord(one):04x}" if ord(one) < 0x20 else one) for one in text)
    return '"' + "".join(letters) + '"'


def write_number(number: float) -> str:
    """Write a double as ECMAScript does (RFC 8785, section 3.2.2.3; ECMA-262, Number::toString)."""
    if number == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    text = "".join(map(str, digits))
    assert isinstance(exponent, int)
    places = len(text)
    point = places + exponent
    if places <= point <= 21:
        body = text + "0" * (point - places)
    elif 0 < point <= 21:
        body = f"{text[:point]}.{text[point:]}"
    elif -6 < point <= 0:
        body = "0." + "0" * -point + text
    else:
        power = point - 1
        fraction = f".{text[1:]}" if places > 1 else ""
        body = f"{text[0]}{fraction}e{'+' if power > 0 else '-'}{abs(power)}"
    return ("-" if sign else "") + body


def write_canonical(value: object) -> str:
    """Write a JSON value in its canonical form."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return write_text(value)
    if isinstance(value, (int, float)):
        return write_number(float(value))
    if isinstance(value, list):
        return "[" + ",".join(map(write_canonical, value)) + "]"
    assert isinstance(value, dict)
    members = sorted(value.items(), key=lambda member: member[0].encode("utf-16-be"))
    return "{" + ",".join(f"{write_text(key)}:{write_canonical(inner)}" for key, inner in members) + "}"


def digest_of(tool: dict[str, object]) -> str:
    """The SEP-1766 digest of one tool."""
    fields = ("name", "description", "inputSchema", "outputSchema")
    shown = {field: tool[field] for field in fields if tool.get(field) is not None}
    return "sha256:" + hashlib.sha256(write_canonical(shown).encode()).hexdigest()


if __name__ == "__main__":
    for each in json.load(sys.stdin):
        sys.stdout.write(f"{digest_of(each)} {each['name']}\n")
