"""The servers of each sample in the hub: the fields of a mount, or the reason of a refused import. 17.3, 33.8."""

from __future__ import annotations

from typing import Any

from patchbay.client.applications.members import SANDBOXED

OTHER_ISSUER = (
    "it signs in as the OAuth client {}, and the file does not name the authorization server: mount it by `patchbay"
    " mount NAME 'mcp+URL?launch.issuer=ISSUER' --account caller`, and write the client into the field oauth of"
    " NAME.json"
)

EXPECTED: dict[str, dict[str, dict[str, Any] | str]] = {
    "claude-desktop": {
        "filesystem": {
            "address": "mcp+npx://@modelcontextprotocol/server-filesystem"
            "?launch.arg=/srv/ada/Desktop&launch.arg=/srv/ada/My%20Documents"
        },
        "brave-search": {
            "address": "mcp+npx://@modelcontextprotocol/server-brave-search",
            "environment": {"BRAVE_API_KEY": "${BRAVE_API_KEY}"},
        },
        "weather": {"address": "mcp+stdio:uv --directory /srv/ada/weather run weather.py"},
    },
    "claude-code": {
        "notion": {"address": "https://mcp.notion.example/mcp"},
        "asana": {
            "address": "mcp+https://mcp.asana.example/sse?launch.transport=sse",
            "headers": {"X-API-Key": "${ASANA_X_API_KEY}"},
        },
        "airtable": {
            "address": "mcp+npx://airtable-mcp-server",
            "environment": {"AIRTABLE_API_KEY": "${AIRTABLE_KEY}", "LOG_LEVEL": "${LOG_LEVEL:-info}"},
            "timeout": 120.0,
        },
        "signed": "headersHelper: a program makes the headers there: write them as headers",
        "linear": {
            "address": "mcp+https://mcp.linear.example/mcp?launch.issuer=https://login.linear.example/tenant",
            "account": "caller",
            "oauth": {"client_id": "claude-at-linear", "scope": "read write"},
        },
        "db": {
            "address": "mcp+stdio:./bin/db-server --dsn postgres://localhost/shop?launch.cwd=/srv/ada/shop",
            "enabled": False,
        },
    },
    "cursor": {
        "local-server": "args: only the client can resolve ${workspaceFolder}",
        "web-api": {
            "address": "https://api.example.com/mcp",
            "headers": {"Authorization": "Bearer ${MY_SERVICE_TOKEN}", "X-Team": "shop"},
        },
        "with-file": "envFile: it names a file with variables: write them as env, or set them in the environment of the"
        " hub",
        "static-oauth": OTHER_ISSUER.format("${env:MCP_CLIENT_ID}"),
    },
    "vscode": {
        "perplexity": {
            "address": "mcp+npx://server-perplexity-ask",
            "environment": {"PERPLEXITY_API_KEY": "${PERPLEXITY_KEY}"},
        },
        "github": {"address": "https://api.githubcopilot.com/mcp/"},
        "socket": "expected an http or https URL, got unix:///tmp/server.sock",
        "sandboxed": f"sandboxEnabled: {SANDBOXED}",
        "developed": {"address": "mcp+stdio:node build/index.js"},
    },
    "windsurf": {
        "github": {
            "address": "mcp+npx://@modelcontextprotocol/server-github",
            "environment": {"GITHUB_PERSONAL_ACCESS_TOKEN": "${GITHUB_PERSONAL_ACCESS_TOKEN}"},
            "enabled": False,
        },
        "remote-http": {
            "address": "https://remote.example/mcp",
            "headers": {"API_KEY": "Bearer ${AUTH_TOKEN}"},
            "listing": {"exclude": ["delete_everything"]},
        },
        "from-file": "headers.Authorization: only the client can resolve ${file:/run/token}",
    },
    "codex": {
        "context7": {
            "address": "mcp+npx://@upstash/context7-mcp",
            "environment": {"MY_ENV_VAR": "MY_ENV_VALUE", "LOCAL_TOKEN": "${LOCAL_TOKEN}"},
        },
        "figma": {
            "address": "https://mcp.figma.example/mcp",
            "headers": {
                "X-Figma-Region": "us-east-1",
                "X-Figma-Team": "${FIGMA_TEAM}",
                "Authorization": "Bearer ${FIGMA_OAUTH_TOKEN}",
            },
            "timeout": 90.0,
        },
        "chrome_devtools": {
            "address": "http://localhost:3000/mcp",
            "listing": {"include": ["open", "screenshot"], "exclude": ["screenshot"]},
            "enabled": False,
        },
    },
    "gemini": {
        "pythonTools": {
            "address": "mcp+stdio:python -m my_mcp_server --port 8080?launch.cwd=/srv/ada/mcp-servers/python",
            "environment": {"DATABASE_URL": "${DB_CONNECTION_STRING}", "API_KEY": "${EXTERNAL_API_KEY}"},
            "timeout": 15.0,
        },
        "httpServerWithAuth": {
            "address": "http://localhost:3000/mcp",
            "headers": {
                "Authorization": "Bearer ${HTTPSERVERWITHAUTH_AUTHORIZATION}",
                "X-Custom-Header": "custom-value",
            },
            "timeout": 5.0,
            "listing": {"include": ["safe_tool"], "exclude": ["dangerous_tool"]},
        },
        "experimental": {"address": "mcp+http://localhost:8081/sse?launch.transport=sse", "enabled": False},
        "googleCloudServer": "authProviderType: google_credentials are credentials that only the client has: write a"
        " header Authorization",
        "discovered": {
            "address": "https://api.example.com/mcp",
            "account": "caller",
            "oauth": {"scope": "files.read files.write"},
        },
        "own-client": OTHER_ISSUER.format("webex-client"),
    },
    "zed": {
        "local-mcp-server": {"address": "mcp+stdio:some-command arg-1 arg-2"},
        "remote-mcp-server": {
            "address": "https://remote.example/mcp",
            "headers": {"Authorization": "Bearer ${REMOTE_MCP_SERVER_AUTHORIZATION}"},
        },
        "older": {"address": "mcp+stdio:/srv/older run", "environment": {"MODE": "fast"}, "enabled": False},
        "mcp-server-github": "it is an extension of Zed, which only Zed can start",
    },
    "goose": {
        "developer": "it is a part of Goose (type builtin), which only Goose can start",
        "github": {
            "address": "mcp+npx://@modelcontextprotocol/server-github",
            "environment": {
                "GITHUB_HOST": "https://github.example",
                "GITHUB_PERSONAL_ACCESS_TOKEN": "${GITHUB_PERSONAL_ACCESS_TOKEN}",
            },
            "title": "GitHub",
            "timeout": 300.0,
        },
        "remote": {
            "address": "https://remote.example/mcp",
            "headers": {"Authorization": "Bearer ${REMOTE_TOKEN}"},
            "timeout": 60.0,
            "enabled": False,
        },
    },
    "cline": {
        "local-server": {
            "address": "mcp+stdio:node /srv/ada/server.js",
            "environment": {"API_KEY": "${CLINE_API_KEY}"},
            "timeout": 120.0,
        },
        "remote-server": {
            "address": "https://remote.example/cline/mcp",
            "headers": {"Authorization": "Bearer ${REMOTE_SERVER_AUTHORIZATION}"},
            "enabled": False,
        },
        "nested": {"address": "https://nested.example/mcp", "account": "caller"},
    },
    "kiro": {
        "web-search": {
            "address": "mcp+npx://@modelcontextprotocol/server-bravesearch",
            "environment": {"BRAVE_KEY": "${BRAVE_SEARCH_KEY}"},
            "listing": {"exclude": ["local_search"]},
        },
        "api-server": {
            "address": "https://api.example.com/kiro/mcp",
            "headers": {"Authorization": "Bearer ${API_TOKEN}", "X-Custom-Header": "value"},
            "timeout": 20.0,
        },
        "registered": OTHER_ISSUER.format("kiro-client"),
    },
    "copilot-cli": {
        "playwright": {"address": "mcp+npx://@playwright/mcp@latest"},
        "context7": {
            "address": "https://mcp.context7.example/mcp",
            "headers": {"CONTEXT7_API_KEY": "${CONTEXT7_KEY}"},
            "listing": {"include": ["resolve-library-id", "get-library-docs"]},
        },
        "nothing": "tools is empty, which allows no tool",
        "oidc": "oidc: GitHub makes the token there, only for its own client: write a header Authorization",
        "headless": "oauthGrantType: the client signs in with a secret of its key ring: mount it by `patchbay mount`"
        " with launch.sign_in=client-credentials in the address",
    },
    "opencode": {
        "everything": {
            "address": "mcp+npx://@modelcontextprotocol/server-memory",
            "environment": {"MEMORY_FILE": "${MEMORY_FILE_PATH}"},
            "timeout": 5.0,
        },
        "sentry": {
            "address": "https://mcp.sentry.example/mcp",
            "headers": {"Authorization": "Bearer ${SENTRY_TOKEN}"},
            "enabled": False,
        },
        "no-sign-in": {"address": "https://open.example/mcp"},
        "from-file": "headers.Authorization: only the client can resolve {file:~/.secrets/token}: write a variable"
        " instead",
        "jira": "it switches a server that another file describes: import that file",
    },
    "continue": {
        "sqlite": {
            "address": "mcp+npx://mcp-sqlite?launch.arg=/srv/ada/data.db",
            "environment": {"SQLITE_KEY": "${SQLITE_SECRET}"},
        },
        "remote": {
            "address": "https://remote.example/continue/mcp",
            "headers": {"X-Api-Key": "${REMOTE_X_API_KEY}"},
        },
    },
}

NOTED: dict[str, dict[str, list[str]]] = {
    "claude-code": {"linear": ["alwaysLoad", "oauth.callbackPort"]},
    "vscode": {"developed": ["dev"]},
    "gemini": {"discovered": ["trust", "oauth.redirectUri"]},
    "cline": {
        "local-server": ["autoApprove"],
        "nested": ["oauth.clientInformation", "oauth.tokens", "oauth.redirectUrl"],
    },
    "kiro": {"web-search": ["autoApprove"]},
    "copilot-cli": {"context7": ["filterMapping"]},
}
"""The members that are left out, by client and server; all others are taken over."""

SECRETS: dict[str, tuple[dict[str, str], list[str]]] = {
    "claude-desktop": ({"BRAVE_API_KEY": "BSA-0123456789"}, []),
    "claude-code": ({"ASANA_X_API_KEY": "asana-0123456789"}, ["AIRTABLE_KEY"]),
    "cursor": ({}, ["MY_SERVICE_TOKEN"]),
    "vscode": ({}, ["PERPLEXITY_KEY"]),
    "windsurf": ({"GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_0123456789"}, ["AUTH_TOKEN"]),
    "codex": ({}, ["FIGMA_OAUTH_TOKEN", "FIGMA_TEAM", "LOCAL_TOKEN"]),
    "gemini": (
        {"HTTPSERVERWITHAUTH_AUTHORIZATION": "your-api-token"},
        ["DB_CONNECTION_STRING", "EXTERNAL_API_KEY"],
    ),
    "zed": ({"REMOTE_MCP_SERVER_AUTHORIZATION": "zed-0123456789"}, []),
    "goose": (
        {},
        ["GITHUB_PERSONAL_ACCESS_TOKEN", "REMOTE_TOKEN"],
    ),
    "cline": ({"REMOTE_SERVER_AUTHORIZATION": "cline-0123456789"}, ["CLINE_API_KEY"]),
    "kiro": ({}, ["API_TOKEN", "BRAVE_SEARCH_KEY"]),
    "copilot-cli": ({}, ["CONTEXT7_KEY"]),
    "opencode": ({}, ["MEMORY_FILE_PATH", "SENTRY_TOKEN"]),
    "continue": ({"REMOTE_X_API_KEY": "continue-0123456789"}, ["SQLITE_SECRET"]),
}
"""The variables with the values of the file, and those whose values only the client knows."""
