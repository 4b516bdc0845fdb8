"""Glewlwyd, an identity provider of Debian's packages, unpacked into a folder and set up by its own API.

The packages are downloaded, not installed, so that any user of the machine can run it. A machine without apt-get, or
whose Debian has no such package, has no Glewlwyd.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.access.tokens.issuers import make_key
from tests.interaction.programs import free_port, plain_environment, running
from tests.waiting import BOUND

PACKAGES = (
    *("glewlwyd", "glewlwyd-common", "libconfig9", "libmariadb3", "liborcania2.3", "libyder2.0", "libhoel1.4"),
    *("librhonabwy1.1", "libmicrohttpd12", "libulfius2.7", "libiddawc1.1", "liboath0"),
)
ADMIN, PASSWORD = "admin", "password"
"""The first account of a new database, as the package makes it."""

CLIENT, SECRET = "patchbay", "a-secret-of-tests"
CLI, CLI_PAGE = "cli", "http://127.0.0.1:9/callback"
"""A public client that calls the hub with access tokens, and its redirect URI."""


class NotThere(Exception):
    """The machine has no such package."""


@dataclass
class Glewlwyd:
    """A running Glewlwyd; `url` is its address, `issuer` that of its plugin of OpenID Connect."""

    url: str

    @property
    def issuer(self) -> str:
        return f"{self.url}/api/oidc"

    def log_in(self, browser: httpx2.Client, name: str, password: str = PASSWORD) -> None:
        """Log a person in, as the script of its page does."""
        self.send(browser, "POST", "auth/", {"username": name, "password": password})

    def allow(self, browser: httpx2.Client, client: str = CLIENT) -> None:
        """Let a client know who the person is."""
        self.send(browser, "PUT", f"auth/grant/{client}/", {"scope": "openid research"})

    def send(self, browser: httpx2.Client, method: str, path: str, body: Any = None) -> httpx2.Response:
        answer = browser.request(method, f"{self.url}/api/{path}", json=body)
        assert answer.status_code == 200, (method, path, answer.status_code, answer.text)
        return answer


def unpack(folder: Path) -> Path:
    """Download the packages, and unpack them into one folder. Raises NotThere."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise NotThere("apt-get and dpkg are missing")
    files, root = folder / "packages", folder / "root"
    files.mkdir(parents=True)
    done = subprocess.run(["apt-get", "download", *PACKAGES], cwd=files, capture_output=True, text=True, timeout=BOUND)
    if done.returncode:
        raise NotThere(done.stderr[-300:])
    for package in files.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, root], check=True, timeout=BOUND)
    return root


def write_configuration(folder: Path, root: Path, port: int) -> Path:
    """Make the database, and write the configuration of a server at this port."""
    script = root / "usr/share/dbconfig-common/data/glewlwyd/install/sqlite3"
    database = sqlite3.connect(folder / "glewlwyd.db")
    database.executescript(script.read_text("utf-8"))
    database.close()
    libraries = root / "usr/lib/glewlwyd"
    (folder / "middleware").mkdir()
    values = {
        "external_url": f"http://127.0.0.1:{port}",
        **{"bind_address": "127.0.0.1", "login_url": "login.html", "api_prefix": "api", "cookie_domain": "127.0.0.1"},
        **{"log_mode": "console", "log_level": "WARNING", "session_key": "GLEWLWYD2_SESSION_ID"},
        **{"admin_scope": "g_admin", "profile_scope": "g_profile", "hash_algorithm": "SHA512"},
        "static_files_path": f"{root}/usr/share/glewlwyd/webapp/",
        "user_module_path": f"{libraries}/user",
        "user_middleware_module_path": f"{folder}/middleware",
        "client_module_path": f"{libraries}/client",
        "user_auth_scheme_module_path": f"{libraries}/scheme",
        "plugin_module_path": f"{libraries}/plugin",
    }
    lines = [f"port={port}", "cookie_secure=0", "session_expiration=86400"]
    lines += [f'{name}="{value}"' for name, value in values.items()]
    lines.append(f'database = {{ type = "sqlite3"; path = "{folder}/glewlwyd.db" }};')
    path = folder / "glewlwyd.conf"
    path.write_text("\n".join(lines) + "\n")
    return path


def plugin(issuer: str, resource: str) -> dict[str, Any]:
    """The plugin of OpenID Connect: code flow with PKCE, rotating refresh tokens, sessions with both logouts.

    Clients get access tokens for the resource (RFC 8707).
    """
    key = make_key("RS256")
    flags = (
        *("refresh-token-rolling", "auth-type-code-enabled", "auth-type-refresh-enabled", "jwks-show"),
        *(
            "pkce-allowed",
            "session-management-allowed",
            "auth-type-code-revoke-replayed",
            "back-channel-logout-allowed",
            "resource-allowed",
        ),
    )
    off = (
        *("allow-non-oidc", "auth-type-token-enabled", "auth-type-id-token-enabled", "auth-type-password-enabled"),
        *(
            "auth-type-client-enabled",
            "auth-type-device-enabled",
            "pkce-method-plain-allowed",
            "encrypt-out-token-allow",
        ),
    )
    parameters: dict[str, Any] = {
        **dict.fromkeys(flags, True),
        **dict.fromkeys(off, False),
        **{"iss": issuer, "jwt-type": "rsa", "jwt-key-size": "256", "subject-type": "public"},
        **{"key": key.as_pem(private=True).decode(), "cert": key.as_pem(private=False).decode()},
        **{"access-token-duration": 3600, "refresh-token-duration": 86400, "code-duration": 600},
        **{"allowed-scope": ["openid", "research"], "name-claim": "mandatory", "email-claim": "mandatory"},
        **{"scope-claim": "mandatory", "refresh-token-one-use": "never"},
        **{"resource-scope": {"research": [resource]}, "resource-client-property": ""},
        **{"session-cookie-name": "GLEWLWYD2_OIDC_SID", "session-cookie-expiration": 2419200},
    }
    return {"module": "oidc", "name": "oidc", "display_name": "OpenID Connect", "parameters": parameters}


def client(base: str) -> dict[str, Any]:
    """The hub as a client; `base` is its URL."""
    return {
        "client_id": CLIENT,
        "name": "The hub",
        "enabled": True,
        "confidential": True,
        "password": SECRET,
        "client_secret": SECRET,
        "redirect_uri": [f"{base}/sign-in/acme/callback"],
        "authorization_type": ["code", "refresh_token"],
        "token_endpoint_auth_method": ["client_secret_basic"],
        "post_logout_redirect_uris": f"{base}/login",
        "backchannel_logout_uri": f"{base}/sign-in/acme/backchannel-logout",
        "backchannel_logout_session_required": "1",
        "scope": ["openid", "research"],
    }


def public_client() -> dict[str, Any]:
    """A program of a person, such as a client of MCP, without a secret."""
    return {
        "client_id": CLI,
        "name": "A client",
        "enabled": True,
        "confidential": False,
        "redirect_uri": [CLI_PAGE],
        "authorization_type": ["code"],
        "scope": ["openid", "research"],
    }


@contextmanager
def running_glewlwyd(folder: Path, base: str, people: tuple[str, ...]) -> Iterator[Glewlwyd]:
    """Glewlwyd with these people, who are in the scope `research`, while it runs. Raises NotThere."""
    folder.mkdir(parents=True)
    root, port = unpack(folder), free_port()
    found = Glewlwyd(f"http://127.0.0.1:{port}")
    program = [str(root / "usr/bin/glewlwyd"), "--config-file", str(write_configuration(folder, root, port))]
    libraries = str(root / f"usr/lib/{os.uname().machine}-linux-gnu")
    environment = plain_environment(folder) | {"LD_LIBRARY_PATH": libraries}
    with (
        running(program, f"{found.url}/config", folder, statuses=(200, 404), environment=environment),
        httpx2.Client(timeout=BOUND) as admin,
    ):
        found.log_in(admin, ADMIN)
        found.send(admin, "POST", "scope/", {"name": "research", "display_name": "Research"})
        found.send(admin, "POST", "mod/plugin/", plugin(found.issuer, f"{base}/mcp"))
        for row in (client(base), public_client()):
            found.send(admin, "POST", "client/?source=database", row)
        for name in people:
            person = {"username": name, "password": PASSWORD, "name": f"Name of {name}", "enabled": True}
            person |= {"email": f"{name}@example.org", "scope": ["openid", "research"]}
            found.send(admin, "POST", "user/?source=database", person)
        yield found
