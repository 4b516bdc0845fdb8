"""The kind of servers without code."""

from __future__ import annotations

from patchbay.kind import Kind

KIND = Kind("static", "Definition as JSON", language="json", endings=(".json",), is_configuration=True)
