"""jq: ask questions of JSON.

Filters are jq's own (https://jqlang.org/manual/). They see their input and nothing else: the
environment is empty, and no file or module can be read.
"""

from itertools import islice
from typing import Any

import jq

# `env` and `$ENV` would show the hub's environment, `modulemeta` and `get_search_list` its files. A filter
# stands inside brackets, where `import` and `include` are no syntax. The line feed ends a comment.
_CLOSED = "def env: {}; def modulemeta: {}; def get_search_list: []; {} as $ENV | (%s\n)"

_MOST = 10_000


def main(filter: str, input: Any) -> list[Any]:
    """Run a jq filter over a JSON value and list everything it gives.

    Args:
        filter: A jq filter, such as `.items[] | select(.price < 10) | .name`.
        input: The JSON value to look at.
    """
    return _results(_program(filter).input_value(input))


def query_text(filter: str, text: str) -> list[Any]:
    """Run a jq filter over JSON text, which may hold several values (JSON Lines).

    Args:
        filter: A jq filter, run once for each value.
        text: JSON values, one after the other.
    """
    return _results(_program(filter).input_text(text))


def keys(input: Any) -> list[str]:
    """List the keys of an object, or of all objects in an array, sorted.

    Args:
        input: An object, or an array of objects.
    """
    found = _program("[if type == 'array' then .[] else . end | keys[]] | unique".replace("'", '"'))
    return found.input_value(input).first()


def paths(input: Any) -> list[str]:
    """List the path of every leaf of a JSON value, as filters that can be used as they are.

    Args:
        input: The JSON value to look at.
    """
    spelled = 'map(if type == "number" then "[\\(.)]" else "[\\(tojson)]" end) | "." + join("")'
    return _program(f"[paths(scalars) | {spelled}]").input_value(input).first()


def _program(filter: str) -> Any:
    return jq.compile(_CLOSED % filter)


def _results(run: Any) -> list[Any]:
    found = list(islice(iter(run), _MOST + 1))
    if len(found) > _MOST:
        raise ValueError(f"the filter gives more than {_MOST} results; narrow it, for example with limit({_MOST}; ...)")
    return found
