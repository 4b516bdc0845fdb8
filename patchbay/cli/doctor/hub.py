"""Checks of the hub: its data folder, its secret files, its port, whether it answers, and who may reach it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from patchbay.access.hub_key import KEY_FILE
from patchbay.access.operator_token import HASH_FILE, TOKEN_FILE
from patchbay.access.stored_key_id import find_problem
from patchbay.access.tokens.issuer import load_issuer
from patchbay.access.tokens.issuer_documents import IssuerDocuments
from patchbay.cli.data_store import opened_store
from patchbay.cli.doctor.database import check_database, check_database_file
from patchbay.cli.doctor.ports import find_listener
from patchbay.cli.doctor.verdicts import CheckResult, ok, problem, warning
from patchbay.cli.running_hub import RunningHub
from patchbay.cli.terminal.messages import quote_word
from patchbay.errors import ConfigError, PatchbayError
from patchbay.hosts.names import is_loopback, is_loopback_name
from patchbay.serving.supervisor import AddressTaken, listen
from patchbay.settings import OPEN, Settings
from patchbay.store import store_exists
from patchbay.web.operator.exposure import check_exposure

PRIVATE_MODE = 0o077
"""The bits of a mode that let other users use a file."""


def check_hub(settings: Settings, hub: RunningHub | None, environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Yield the verdicts about the hub; `hub` is the running one."""
    yield from check_data_folder(settings)
    yield from check_database(settings)
    yield from check_database_file(settings)
    yield from check_secret_files(settings.data)
    yield from check_key(settings)
    yield check_answers(settings, hub)
    if hub is None:
        yield check_port(settings)
    yield check_reach(settings)
    if settings.issuer:
        yield check_issuer(settings, environ)


def check_data_folder(settings: Settings) -> Iterator[CheckResult]:
    """Check that the data folder can be used, and that other users cannot read it."""
    folder = settings.data
    if settings.store == "memory":
        yield warning("data folder", "--store memory keeps nothing after the end of the hub", "patchbay serve")
        return
    shown = quote_word(str(folder))
    if not folder.exists():
        parent = next(path for path in folder.parents if path.exists())
        if not os.access(parent, os.W_OK):
            yield problem("data folder", f"{folder} cannot be made in {parent}", "patchbay serve --data ~/patchbay")
            return
        yield ok("data folder", f"{folder} does not exist yet; the first start makes it")
        return
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        yield problem("data folder", f"{folder} is on a read-only disk", "patchbay serve --data ~/patchbay")
    elif not folder.is_dir() or not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield problem("data folder", f"{folder} cannot be read and written", f"sudo chown -R $USER {shown}")
    elif folder.stat().st_mode & PRIVATE_MODE:
        yield warning("data folder", f"other users can read {folder}", f"chmod 700 {shown}")
    elif not store_exists(settings.store, folder):
        yield ok("data folder", f"{folder} has no database yet; the first start makes it")
    else:
        yield ok("data folder", str(folder))


def check_secret_files(folder: Path) -> Iterator[CheckResult]:
    """Check that only their owner can read the key, and the operator's token and its hash."""
    try:
        files = [folder / name for name in (KEY_FILE, HASH_FILE, TOKEN_FILE) if (folder / name).exists()]
        modes = {file: stat.S_IMODE(file.stat().st_mode) for file in files}
    except OSError as found:
        yield problem(
            "secret files", f"{found.filename} cannot be read ({found.strerror})", f"sudo chown -R $USER {folder}"
        )
        return
    wide = [file for file, mode in modes.items() if mode & PRIVATE_MODE]
    if wide:
        names, shown = ", ".join(file.name for file in wide), " ".join(quote_word(str(file)) for file in wide)
        yield problem("secret files", f"other users can read {names}", f"chmod 600 {shown}; patchbay token")
    elif modes:
        yield ok("secret files", f"only their owner can read {', '.join(file.name for file in modes)}")


def check_key(settings: Settings) -> Iterator[CheckResult]:
    """Check that the data folder has the key that its database was made with. A database that cannot be read has none.

    The checks of the data folder report such a database.
    """
    if settings.store != "sqlite" or not store_exists(settings.store, settings.data):
        return
    try:
        with opened_store(settings) as store:
            found = find_problem(store, settings.data)
    except ConfigError as unusable:
        found = unusable.expected
    except (PatchbayError, OSError):
        return
    if found is not None:
        file = settings.data / KEY_FILE
        yield problem("key", f"{file}: {found}", "put the file back from a backup, or patchbay key replace")


def check_answers(settings: Settings, hub: RunningHub | None) -> CheckResult:
    """Check that the hub of the data folder runs and answers."""
    if hub is None:
        return ok("hub", "no hub runs on this data folder; `patchbay serve` starts one")
    try:
        count = len(hub.servers())
    except PatchbayError as found:
        return problem("hub", found.message, f"kill {hub.process}, then patchbay serve")
    return ok("hub", f"it answers at {hub.url} with {count} servers (process {hub.process})")


def check_port(settings: Settings) -> CheckResult:
    """Check that a hub could listen."""
    try:
        listen(settings.host, settings.port).close()
    except AddressTaken as found:
        if "in use" not in found.message:
            return problem("port", found.message, "patchbay serve --host 127.0.0.1")
        sentence = f"{find_listener(settings.port)} listens on port {settings.port}"
        return problem("port", sentence, "patchbay serve --port 0")
    return ok("port", f"{settings.port} on {settings.host} is free")


def check_reach(settings: Settings) -> CheckResult:
    """Check that the settings of host, names and access agree."""
    try:
        check_exposure(settings)
    except ConfigError as found:
        return problem("access", found.message, "patchbay serve without --access personal")
    if not is_loopback(settings.host) and all(is_loopback_name(name) for name in settings.allowed_hosts):
        sentence = f"{settings.host} takes requests of other machines, but --allowed-hosts names this machine only"
        return problem("access", sentence, "patchbay serve --allowed-hosts NAME, with the name that clients use")
    if settings.mode == OPEN:
        sentence = "everybody who can reach the hub may read its pages and call its tools"
        return warning("access", sentence, "patchbay serve --access shared")
    return ok("access", f"{settings.mode}; requests may name {', '.join(settings.allowed_hosts)}")


def check_issuer(settings: Settings, environ: Mapping[str, str]) -> CheckResult:
    """Check that the outside issuer answers with its metadata."""
    try:
        issuer = load_issuer(settings, environ)
        if issuer is not None:
            IssuerDocuments(issuer).discover()
    except PatchbayError as found:
        return problem("issuer", found.message, f"curl {settings.issuer}/.well-known/openid-configuration")
    return ok("issuer", f"{settings.issuer} answers")
