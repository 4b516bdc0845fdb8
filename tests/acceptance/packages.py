"""The packages that the acceptance run uses: their addresses, and one call each that needs no account and no network.

A call's text has to hold `says`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Package:
    """One server; in its texts, `{folder}` and `{repository}` are folders of the run."""

    name: str
    address: str
    tool: str
    arguments: dict[str, Any]
    says: str
    varying: frozenset[str] = frozenset()
    """Tools that the server has by what its client can do: the client and the hub differ in that."""

    permissions: dict[str, Any] = field(default_factory=dict)
    """Lines of its configuration that it needs as a confined program: what an operator has to know beforehand."""

    is_repeatable: bool = True
    """Whether two calls have equal results."""


EVERYTHING_VARYING = frozenset(
    {
        "get-roots-list",
        "simulate-research-query",
        "trigger-elicitation-request",
        "trigger-elicitation-request-async",
        "trigger-sampling-request",
        "trigger-sampling-request-async",
        "trigger-url-elicitation",
    }
)


@dataclass(frozen=True)
class Listed:
    """A server that is mounted and listed, and not called: its calls need an account, a network or a browser."""

    name: str
    address: str
    varying: frozenset[str] = frozenset()
    permissions: dict[str, Any] = field(default_factory=dict)


OFFICIAL = "mcp+npx://@modelcontextprotocol"

PACKAGES = [
    Package(
        "mcp-server-time",
        "mcp+uvx://mcp-server-time",
        "get_current_time",
        {"timezone": "UTC"},
        "UTC",
        is_repeatable=False,
    ),
    Package(
        "mcp-server-git",
        "mcp+uvx://mcp-server-git?launch.arg=--repository&launch.arg={repository}",
        "git_log",
        {"repo_path": "{repository}"},
        "first",
    ),
    Package(
        "mcp-server-sqlite",
        "mcp+uvx://mcp-server-sqlite?launch.arg=--db-path&launch.arg={folder}/a.db&launch.with=mcp<2",
        "list_tables",
        {},
        "[]",
        permissions={"writes": ["{folder}"]},
    ),
    Package("mcp-server-calculator", "mcp+uvx://mcp-server-calculator", "calculate", {"expression": "6*7"}, "42"),
    Package(
        "markitdown-mcp",
        "mcp+uvx://markitdown-mcp",
        "convert_to_markdown",
        {"uri": "data:text/html;base64,PGgxPkEgdGl0bGU8L2gxPg=="},
        "# A title",
    ),
    Package(
        "arxiv-mcp-server",
        "mcp+uvx://arxiv-mcp-server?launch.arg=--storage-path&launch.arg={folder}/papers",
        "list_papers",
        {},
        "total_papers",
        permissions={"writes": ["{folder}"]},
    ),
    Package(
        "random-number-mcp",
        "mcp+uvx://random-number-mcp",
        "random_choices",
        {"population": ["seven"], "k": 1},
        "seven",
    ),
    Package(
        "mcp-simple-timeserver",
        "mcp+uvx://mcp-simple-timeserver",
        "calculate_time_distance",
        {"from_date": "2026-01-01", "to_date": "2026-01-15", "unit": "days"},
        "14",
    ),
    Package(
        "mcp-shell-server",
        "mcp+uvx://mcp-shell-server?env.ALLOW_COMMANDS=ls",
        "shell_execute",
        {"command": ["ls"], "directory": "{folder}"},
        "note.txt",
    ),
    Package(
        "excel-mcp-server",
        "mcp+uvx://excel-mcp-server?launch.arg=stdio",
        "create_workbook",
        {"path": "{folder}/a.xlsx", "overwrite": True},
        "a.xlsx",
        permissions={"writes": ["{folder}"]},
    ),
    Package(
        "mcp-think-tool",
        "mcp+uvx://mcp-think-tool?launch.with=mcp<2",
        "think",
        {"thought": "a thought"},
        "a thought",
    ),
    Package(
        "server-everything",
        f"{OFFICIAL}/server-everything",
        "echo",
        {"message": "hello"},
        "Echo: hello",
        EVERYTHING_VARYING,
    ),
    Package(
        "server-filesystem",
        f"{OFFICIAL}/server-filesystem?launch.arg={{folder}}",
        "list_directory",
        {"path": "{folder}"},
        "note.txt",
    ),
    Package("server-memory", f"{OFFICIAL}/server-memory", "read_graph", {}, "entities"),
    Package(
        "server-sequential-thinking",
        f"{OFFICIAL}/server-sequential-thinking",
        "sequentialthinking",
        {"thought": "one", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
        "thoughtNumber",
    ),
    Package(
        "mcp-server-code-runner",
        "mcp+npx://mcp-server-code-runner",
        "run-code",
        {"code": "console.log(6 * 7)", "languageId": "javascript"},
        "42",
    ),
    Package("mcp-hello-world", "mcp+npx://mcp-hello-world", "add", {"a": 40, "b": 2}, "42"),
    Package("git-mcp-server", "mcp+npx://@cyanheads/git-mcp-server", "git_log", {"path": "{repository}"}, "first"),
    Package(
        "mcp-server-commands", "mcp+npx://mcp-server-commands", "run_command", {"command": "ls {folder}"}, "note.txt"
    ),
    Package(
        "agent-infra-commands",
        "mcp+npx://@agent-infra/mcp-server-commands",
        "run_command",
        {"command": "ls {folder}"},
        "note.txt",
    ),
]

LISTED = [
    Listed("mcp-server-fetch", "mcp+uvx://mcp-server-fetch"),
    Listed("duckduckgo-mcp-server", "mcp+uvx://duckduckgo-mcp-server"),
    Listed("wikipedia-mcp", "mcp+uvx://wikipedia-mcp"),
    Listed("mcp-text-editor", "mcp+uvx://mcp-text-editor?launch.with=mcp<2"),
    Listed(
        "mcp-alchemy",
        "mcp+uvx://mcp-alchemy?env.DB_URL=sqlite:///{folder}/b.db",
        permissions={"writes": ["{folder}"]},
    ),
    Listed("office-word-mcp-server", "mcp+uvx://office-word-mcp-server/word_mcp_server"),
    Listed("office-powerpoint-mcp-server", "mcp+uvx://office-powerpoint-mcp-server/ppt_mcp_server?launch.with=mcp<2"),
    Listed("mcp-pandoc", "mcp+uvx://mcp-pandoc"),
    Listed("playwright-mcp", "mcp+npx://@playwright/mcp"),
    Listed("context7-mcp", "mcp+npx://@upstash/context7-mcp"),
    Listed("eslint-mcp", "mcp+npx://@eslint/mcp"),
    Listed("mcp-server-chart", "mcp+npx://@antv/mcp-server-chart"),
    Listed("mcp-server-airbnb", "mcp+npx://@openbnb/mcp-server-airbnb"),
    Listed("mcp-server-youtube-transcript", "mcp+npx://@kimtaeyoon83/mcp-server-youtube-transcript"),
    Listed("calc-mcp", "mcp+npx://@coo-quack/calc-mcp"),
    Listed("primevue-mcp", "mcp+npx://@primevue/mcp"),
    Listed("antd-components-mcp", "mcp+npx://@jzone-mcp/antd-components-mcp"),
    Listed("mantine-mcp-server", "mcp+npx://@mantine/mcp-server"),
    Listed("chrome-devtools-mcp", "mcp+npx://chrome-devtools-mcp"),
    Listed("hugeicons-mcp-server", "mcp+npx://@hugeicons/mcp-server"),
]

BROWSER_CODE = "data:text/html,<title>A page</title><h1>Made by a browser</h1>"

OTHERS: list[Package | Listed] = [
    Package(
        "playwright-mcp-with-chromium",
        "mcp+npx://@playwright/mcp?launch.arg=--headless&launch.arg=--no-sandbox"
        "&launch.arg=--executable-path&launch.arg={chromium}",
        "browser_navigate",
        {"url": BROWSER_CODE},
        "A page",
        permissions={"needs": "browser"},
        is_repeatable=False,
    ),
    Listed("mcp-grafana", "mcp+uvx://mcp-grafana"),
    Package(
        "a-program-that-forks",
        "mcp+npx://mcp-server-commands",
        "run_command",
        {"command": "for one in 1 2 3 4; do (sleep 0.1; echo $one > file-$one) & done; wait; cat file-1 file-4"},
        "4",
    ),
]
"""A program that starts a browser, one in Go, and one that starts processes beside each other."""
