"""The tools of the jq server, with the schemas and hints that a signature cannot say."""

from typing import Any

FILTER = {
    "type": "string",
    "minLength": 1,
    "description": "A jq filter.",
    "examples": [
        ".name",
        ".items[] | select(.price < 10) | .name",
        "group_by(.kind) | map({kind: .[0].kind, n: length})",
    ],
}
ANY = {"description": "Any JSON value."}
RECORDS = {"anyOf": [{"type": "object"}, {"type": "array"}], "description": "An object, or an array of objects."}


def generate_tools(server_name: str, context: dict) -> list:
    """The tools as clients see them; `function` names what runs each in the definition."""
    return [
        _tool("query", "main", "Query JSON", "Run a jq filter over a JSON value.", filter=FILTER, input=ANY),
        _tool(
            "query_text",
            "query_text",
            "Query JSON text",
            "Run a jq filter over JSON text or JSON Lines, once for each value in it.",
            filter=FILTER,
            text={"type": "string", "description": "JSON values, one after the other."},
        ),
        _tool("keys", "keys", "List keys", "List the keys of an object, or of all objects in an array.", input=RECORDS),
        _tool("paths", "paths", "List paths", "List the path of every leaf, each a filter of its own.", input=ANY),
    ]


def _tool(name: str, function: str, title: str, description: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        },
        "function": function,
    }
