"""Places of a user that no program of a stranger reads: keys, sign-ins, profiles of browsers, histories of shells.

They are hidden from every confined program, unless its configuration names one of them, or a place inside one, under
`reads` or `writes`. A folder above one, such as the home folder, opens none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

PRIVATE_PLACES = (
    *(".ssh", ".gnupg", ".password-store", ".local/share/keyrings", ".local/share/kwalletd", ".pki", ".cert"),
    *(".aws", ".azure", ".boto", ".oci", ".kube", ".docker", ".minikube", ".terraform.d", ".vault-token", ".s3cfg"),
    *(".config", ".netrc", ".npmrc", ".yarnrc.yml", ".pypirc", ".git-credentials", ".pgpass", ".my.cnf"),
    *(".mylogin.cnf", ".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".zprofile", ".env", ".envrc"),
    *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2", ".gradle", ".nuget", ".composer"),
    *(".mozilla", ".thunderbird", ".cache/mozilla", ".cache/google-chrome", ".cache/chromium", "snap", ".var/app"),
    *("Library/Keychains", "Library/Application Support", "Library/Cookies"),
    *(".claude", ".claude.json", ".codex", ".cursor", ".gemini", ".vscode", ".continue", ".jn", ".mcp-auth"),
    *(".cache/huggingface/token", ".huggingface", ".kaggle", ".bitcoin", ".ethereum", ".electrum"),
    *(".Xauthority", ".ICEauthority", ".dbus", ".gphoto", ".local/share/fish", ".viminfo", ".lesshst", ".wget-hsts"),
    *(".gitconfig", ".gitcookies", ".pip", ".yarnrc", ".bunfig.toml", ".condarc", ".hgrc", ".subversion", ".curlrc"),
    *(".local/share/recently-used.xbel", ".rhosts", ".psqlrc", ".fetchmailrc", ".msmtprc", ".muttrc", ".mbsyncrc"),
    *(".wgetrc", ".local/share/uv/credentials"),
)
"""Places in the home folder, each a folder or a file."""

SECRET_VARIABLES = (
    *("XDG_CONFIG_HOME", "GNUPGHOME", "DOCKER_CONFIG", "CLOUDSDK_CONFIG", "KUBECONFIG", "PGPASSFILE", "NETRC"),
    *("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "GOOGLE_APPLICATION_CREDENTIALS", "npm_config_userconfig"),
)
"""Variables of the hub's environment that name such places elsewhere."""

HISTORIES = (".*_history", ".*history", ".*_hist")
"""Patterns of the files in which shells and clients keep what was typed."""

RUN_FOLDERS = ("/run", "/var/run")
"""Where services listen that run commands for their user, or hold keys: docker, D-Bus, agents. Hidden as a whole."""

SHOWN_RUN_PLACES = (
    *("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf", "/run/connman/resolv.conf"),
    *("/run/nscd", "/run/postgresql", "/run/mysqld", "/run/redis", "/run/current-system", "/run/opengl-driver"),
)
"""What is left of them: the names of hosts, databases, and the programs of some distributions."""

CONTROL_SOCKETS = ("/var/lib/lxd/unix.socket", "/var/snap/lxd/common/lxd/unix.socket", "/var/lib/incus/unix.socket")
"""Sockets elsewhere that give power over the machine."""


def find_private_places(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the private places that exist on this machine, without symbolic links. `environ` has HOME."""
    return tuple(dict.fromkeys(one.resolve() for one in _candidates(find_home(environ), environ) if one.exists()))


def find_home(environ: Mapping[str, str]) -> Path:
    """Return the home folder of the user."""
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def _candidates(home: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    yield from (home / name for name in PRIVATE_PLACES)
    for pattern in HISTORIES:
        yield from home.glob(pattern)
    for name in SECRET_VARIABLES:
        if environ.get(name):
            yield Path(environ[name])
