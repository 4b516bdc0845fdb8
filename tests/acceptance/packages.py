"""The packages that the acceptance run uses: their addresses, and one call each that needs no account and no network.

A call's text has to hold `says`; without a tool, only the lists are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Package:
    """One server: `{folder}` in texts is a folder of the run, `{repository}` a git repository in it."""

    name: str
    address: str
    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    says: str = ""


OFFICIAL = "mcp+npx://@modelcontextprotocol"

PACKAGES = [
    Package("mcp-server-time", "mcp+uvx://mcp-server-time", "get_current_time", {"timezone": "UTC"}, "UTC"),
    Package(
        "mcp-server-git",
        "mcp+uvx://mcp-server-git?launch.arg=--repository&launch.arg={repository}",
        "git_log",
        {"repo_path": "{repository}"},
        "first",
    ),
    Package("mcp-server-fetch", "mcp+uvx://mcp-server-fetch"),
    Package(
        "mcp-server-sqlite",
        "mcp+uvx://mcp-server-sqlite?launch.arg=--db-path&launch.arg={folder}/a.db&launch.with=mcp<2",
        "list_tables",
        {},
        "[]",
    ),
    Package("mcp-server-calculator", "mcp+uvx://mcp-server-calculator", "calculate", {"expression": "6*7"}, "42"),
    Package("markitdown-mcp", "mcp+uvx://markitdown-mcp"),
    Package("arxiv-mcp-server", "mcp+uvx://arxiv-mcp-server"),
    Package("duckduckgo-mcp-server", "mcp+uvx://duckduckgo-mcp-server"),
    Package("biomcp-python", "mcp+uvx://biomcp-python/biomcp?command=run"),
    Package("wikipedia-mcp", "mcp+uvx://wikipedia-mcp"),
    Package("server-everything", f"{OFFICIAL}/server-everything", "echo", {"message": "hello"}, "Echo: hello"),
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
    Package("context7-mcp", "mcp+npx://@upstash/context7-mcp"),
    Package("playwright-mcp", "mcp+npx://@playwright/mcp"),
    Package("chrome-devtools-mcp", "mcp+npx://chrome-devtools-mcp"),
    Package("brave-search-mcp-server", "mcp+npx://@brave/brave-search-mcp-server?env.BRAVE_API_KEY=none"),
    Package("notion-mcp-server", "mcp+npx://@notionhq/notion-mcp-server?env.NOTION_TOKEN=none"),
    Package("firecrawl-mcp", "mcp+npx://firecrawl-mcp?env.FIRECRAWL_API_KEY=none"),
]
