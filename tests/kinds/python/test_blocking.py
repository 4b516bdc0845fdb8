"""Which functions never wait for anything outside Python."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from patchbay.kinds.python.blocking import may_block

SAFE = [
    "def main(text): return text",
    "def main(text): return f'{text.upper()!r:>20}'",
    "def main(items): return sorted(len(item) for item in items if item)",
    "import math\ndef main(x): return math.sqrt(x)",
    "from math import sqrt\nfrom datetime import date\ndef main(x): return [sqrt(x), str(date(2020, 1, x))]",
    "FACTORS = ('a', 2)\ndef twice(x): return x * FACTORS[1]\ndef main(x): return twice(x)",
    "def main(n):\n    while n:\n        n -= 1\n    return n",
    "import json\ndef main(text):\n    try: return json.loads(text)\n    except (ValueError, TypeError): return 0",
    "def main(n): return 1 if n < 2 else n * main(n - 1)",
    "def main(items):\n    def key(item): return item['x']\n    return max(items, key=key)",
]

UNSAFE = [
    "import time\ndef main(x): time.sleep(x)",
    "def main(path): return open(path).read()",
    "def main(x):\n    import math\n    return math.pi",
    "import threading\nLOCK = threading.Lock()\ndef main(x):\n    with LOCK:\n        return x",
    "CACHE = {}\ndef main(x): return CACHE[x].get()",
    "CLIENT = None\ndef main(x): return CLIENT.get(x)",
    "import queue\ndef main(x, source=queue.Queue()): return source.get()",
    "import time\ndef nap(): time.sleep(1)\ndef main(x): return nap()",
    "import time\ndef main(x):\n    def nap(): time.sleep(x)\n    return nap()",
    "def main(x): print(x)",
    "def main(x): return getattr(x, 'y')()",
    "def main(x): return unknown(x)",
    "def main(x): yield x",
    "async def main(x): return x",
    "def main(n):\n    while n:\n        try:\n            n += 1\n        except:\n            pass",
    "def main(n):\n    while n:\n        try:\n            n += 1\n        except BaseException:\n            pass",
    "def main(n):\n    while n:\n        try:\n            n += 1\n        except SystemExit:\n            pass",
    "def main(n):\n    while n:\n        try:\n            n += 1\n        finally:\n            continue",
    "class Lock:\n    def main(self): pass\ndef main(x): return Lock()",
    "def outer(f):\n    def main(x): return f(x)\n    return main\nimport time\nmain = outer(time.sleep)",
    "import time\nmain = time.sleep",
]


def function(source: str) -> Any:
    module: dict[str, Any] = {"__name__": "definition"}
    exec(dedent(source), module)
    return module["main"]


@pytest.mark.parametrize("source", SAFE)
def test_a_function_of_json_values_and_computing_modules_does_not_wait(source: str) -> None:
    assert not may_block(function(source))


@pytest.mark.parametrize("source", UNSAFE)
def test_a_function_that_names_anything_else_may_wait(source: str) -> None:
    """T12.5, X2: code that cannot be interrupted never runs on a thread of the web server."""
    assert may_block(function(source))
