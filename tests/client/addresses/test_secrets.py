"""What looks like a secret becomes a reference, and nothing else does: by the configurations of public servers. 47.12.

The configurations follow the READMEs of the servers of modelcontextprotocol/servers, github-mcp-server,
notion-mcp-server, mcp-atlassian, mongodb-mcp-server, postgres-mcp, awslabs/mcp, sentry-mcp, stripe-agent-toolkit,
figma-developer-mcp, exa-mcp-server, firecrawl-mcp-server, obsidian-mcp, grafana-mcp and others.
"""

from __future__ import annotations

import random
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from patchbay.catalogue.watching.mount_files import check_mount
from patchbay.client.addresses.secrets import is_secret
from patchbay.client.addresses.targets import Stdio
from patchbay.client.applications.entries import Entry
from patchbay.client.applications.mounts import Variables, mount_fields

AWS_KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
SECRETS = [
    ("BRAVE_API_KEY", "YOUR_API_KEY_HERE"),
    ("GITHUB_PERSONAL_ACCESS_TOKEN", "<YOUR_TOKEN>"),
    ("OPENAPI_MCP_HEADERS", '{"Authorization": "Bearer ntn_****", "Notion-Version": "2022-06-28" }'),
    ("DATABASE_URI", "postgresql://username:password@localhost:5432/dbname"),
    ("MDB_MCP_CONNECTION_STRING", "mongodb+srv://user:pa55@cluster0.mongodb.net/x"),
    ("SLACK_BOT_TOKEN", "xoxb-your-bot-token"),
    ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
    ("AWS_SECRET_ACCESS_KEY", AWS_KEY),
    ("STRIPE_KEY", "sk_test_4eC39HqLyjWDarjtT1zdp7dc"),
    ("PGPASSWORD", "hunter2"),
    ("DB_PASS", "1234"),
    ("Authorization", "Bearer abcdef123"),
    ("X-API-Key", "abc"),
    ("SENTRY_DSN", "https://examplePublicKey0123456789abcdef@o0.ingest.sentry.io/0"),
    ("SLACK_WEBHOOK_URL", "https://hooks.slack.com/services/T000/B000/XXXX"),
    ("", "https://mcp.exa.ai/mcp?exaApiKey=your-exa-api-key"),
    ("--figma-api-key", "YOUR-KEY"),
    ("ANYTHING", "github_pat_11AAAAAAA0abcdefgh"),
    ("CONNECTION", "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=abcdef==;EndpointSuffix=core.windows.net"),
    ("GOOGLE_CLIENT_SECRET", "GOCSPX-abc"),
    ("TELEGRAM_API_HASH", "0123456789abcdef0123456789abcdef"),
    ("LINKEDIN_COOKIE", "li_at=AQEDAR"),
    ("API_TOKEN_V2", "abc"),
    ("GITHUB_TOKEN_2", "abc"),
    ("SECRET_VALUE", "x"),
    ("apiKey", "abc"),
    ("SIGNING_KEY", "/+abc/def+ghi=="),
    ("POSTGRES_CONNECTION", "Server=db;User=sa;Password=Secret1;"),
    ("REDIS_URL", "redis://:pw@host:6379"),
    ("PRIVATE_KEY", "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"),
    ("SOMETHING", "-----BEGIN PRIVATE KEY-----\nMIIE"),
]
PLAIN = [
    ("MEMORY_FILE_PATH", "/srv/ada/memory.json"),
    ("SLACK_TEAM_ID", "T01234567"),
    ("SLACK_CHANNEL_IDS", "C01234567, C76543210"),
    ("GOOGLE_APPLICATION_CREDENTIALS", "/srv/ada/keys/sa.json"),
    ("GOOGLE_APPLICATION_CREDENTIALS", "C:\\Users\\ada\\sa.json"),
    ("GDRIVE_CREDENTIALS_PATH", "/credentials/gdrive.json"),
    ("GITHUB_TOOLSETS", "repos,issues"),
    ("GITHUB_HOST", "https://ghe.example.com"),
    ("GITHUB_READ_ONLY", "1"),
    ("MAX_TOKENS", "4096"),
    ("TOKEN_BUDGET", "20000"),
    ("AUTH_ENABLED", "true"),
    ("AUTH_TYPE", "basic"),
    ("USE_API_KEY", "false"),
    ("OAUTH_CALLBACK_PORT", "8080"),
    ("OAUTH_TOKEN_URL", "https://auth.example/token"),
    ("GIT_AUTHOR_NAME", "Ada Lovelace"),
    ("TOKEN_FILE", "/run/secrets/token"),
    ("JIRA_USERNAME", "ada@example.com"),
    ("AWS_PROFILE", "default"),
    ("AWS_REGION", "us-east-1"),
    ("GOOGLE_CLIENT_ID", "1234567890-abcdefghijklmnop.apps.googleusercontent.com"),
    ("SPREADSHEET_ID", "1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms"),
    ("NOTION_DATABASE", "d9824bdc-8445-4327-be8b-5b47500af6ce"),
    ("FASTMCP_LOG_LEVEL", "ERROR"),
    ("MODEL", "claude-sonnet-4-20250514"),
    ("SORT_KEY", "created"),
    ("DATABASE_URL", "postgresql://localhost/mydb"),
    ("KUBECONFIG", "/srv/ada/.kube/config"),
    ("PYTHONPATH", "/srv/a:/srv/b"),
    ("NODE_OPTIONS", "--max-old-space-size=4096"),
    ("TOKENIZERS_PARALLELISM", "false"),
    ("AZURE_AUTHORITY_HOST", "https://login.microsoftonline.com"),
    ("ALLOWED_DIRECTORIES", "/a,/b"),
    ("PUPPETEER_LAUNCH_OPTIONS", '{ "headless": false, "args": [] }'),
    ("KEY_VAULT_NAME", "kv-prod"),
    ("GCP_PROJECT", "my-project-123456"),
    ("", "mcp/time@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
    ("", "git+https://github.com/oraios/serena"),
    ("", "@modelcontextprotocol/server-filesystem"),
    ("X-Team", "shop"),
    ("API_KEY", ""),
]


@pytest.mark.parametrize(("name", "value"), SECRETS)
def test_a_value_that_looks_like_a_secret_is_one(name: str, value: str) -> None:
    assert is_secret(name, value)


@pytest.mark.parametrize(("name", "value"), PLAIN)
def test_paths_identifiers_switches_and_plain_urls_are_no_secrets(name: str, value: str) -> None:
    assert not is_secret(name, value)


LETTERS = string.ascii_letters + string.digits
MADE = [
    ("X_SETTING", "ghp_", 36),
    ("X_SETTING", "github_pat_", 82),
    ("X_SETTING", "sk-proj-", 48),
    ("X_SETTING", "sk-ant-api03-", 95),
    ("X_SETTING", "xoxp-", 40),
    ("X_SETTING", "glpat-", 20),
    ("X_SETTING", "AIza", 35),
    ("X_SETTING", "hf_", 34),
    ("X_SETTING", "ntn_", 46),
    ("X_SETTING", "", 40),
    ("LINEAR_API_KEY", "", 12),
    ("DB_PASSWORD", "", 10),
    ("ACCESS_TOKEN", "", 16),
]
"""A name, how the secret begins, and its number of random characters."""

CONFIGURATIONS: list[tuple[str, list[str], dict[str, str]]] = [
    (
        "npx",
        ["-y", "@modelcontextprotocol/server-filesystem", "/srv/ada/Desktop", "/srv/My Documents"],
        {"NODE_ENV": "production"},
    ),
    ("npx", ["-y", "@modelcontextprotocol/server-memory"], {"MEMORY_FILE_PATH": "/srv/ada/memory.json"}),
    (
        "docker",
        ["run", "-i", "--rm", "-e", "GITHUB_HOST", "-v", "/srv/data:/data", "ghcr.io/github/github-mcp-server"],
        {"GITHUB_HOST": "https://ghe.example.com", "GITHUB_TOOLSETS": "repos,issues"},
    ),
    ("uvx", ["mcp-server-git", "--repository", "/srv/ada/repo"], {"GIT_AUTHOR_NAME": "Ada Lovelace"}),
    ("uvx", ["--from", "git+https://github.com/oraios/serena", "serena", "start-mcp-server"], {}),
    ("uvx", ["awslabs.aws-documentation-mcp-server@latest"], {"AWS_REGION": "us-east-1", "FASTMCP_LOG_LEVEL": "ERROR"}),
    (
        "uvx",
        ["mcp-google-sheets"],
        {"GOOGLE_APPLICATION_CREDENTIALS": "/srv/ada/sa.json", "DRIVE_FOLDER_ID": "1BxiMVs0X"},
    ),
    ("npx", ["-y", "mcp-remote", "https://mcp.example/sse", "--transport", "http-only"], {"MAX_TOKENS": "4096"}),
    ("node", ["/srv/ada/build/index.js", "--port=8080", "--auth-type", "none"], {"OAUTH_CALLBACK_PORT": "8080"}),
]


@some.composite
def secrets_of_servers(draw: Any) -> tuple[str, str]:
    """A name and a value that a service would have drawn."""
    name, start, size = draw(some.sampled_from(MADE))
    source = random.Random(draw(some.integers(0, 2**32)))
    drawn = "".join(source.choice(LETTERS) for _ in range(size - 3)) + "a1Z"
    return name, start + drawn


@given(
    some.sampled_from(CONFIGURATIONS),
    secrets_of_servers(),
    some.sampled_from(("env", "option", "equals", "pair", "header", "url")),
)
def test_a_secret_in_a_real_configuration_is_the_only_value_that_changes(
    configuration: tuple[str, list[str], dict[str, str]], drawn: tuple[str, str], place: str
) -> None:
    command, args, env = configuration
    name, secret = drawn
    option = f"--{name.lower().replace('_', '-')}"
    added: dict[str, list[str]] = {
        "option": [option, secret],
        "equals": [f"{option}={secret}"],
        "pair": ["-e", f"{name}={secret}"],
        "header": ["--header", f"Authorization: Bearer {secret}"],
        "url": [f"postgresql://ada:{secret}@db.example/shop"],
    }
    given_env = env | ({name: secret} if place == "env" else {})
    variables = Variables()
    fields = mount_fields(Entry("one", Stdio(command, (*args, *added.get(place, [])), given_env)), "one", variables)
    text = check_mount("one", fields, "one.json").decode()
    assert secret not in text
    assert variables.values
    assert all(secret in value for value in variables.values.values())
    environment = fields.get("environment", {})
    assert {key: environment[key] for key in env} == env
    plain = mount_fields(Entry("one", Stdio(command, tuple(args), env)), "one", Variables())
    kept = str(plain["address"]).partition("://")[2] or str(plain["address"])
    assert kept in str(fields["address"])
