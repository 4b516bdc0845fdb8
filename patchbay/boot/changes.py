"""Import an image and apply later changes; names and root move in one step.

Two processes may change different names at the same moment. Each moves its own names; the one that finishes second
makes a root that agrees with both. This module does not check permission: callers ask `is_readonly` first.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from patchbay.boot.built_in import built_in_servers, read_built_in
from patchbay.boot.documents import check_documents
from patchbay.boot.healing import bytes_for_image
from patchbay.boot.image import Image, canonical_json, is_name, parse_image, read_image
from patchbay.boot.references import missing_cids, missing_configurations, missing_contents
from patchbay.cid import cid_of
from patchbay.errors import ConfigError, MissingBlob, ParseError
from patchbay.jsonrpc import parse
from patchbay.store import Blobs, NameChange, Store
from patchbay.topics import (
    ACCESS,
    BOOT,
    BUILT_IN,
    LISTING,
    NAMES_CHANGED,
    PAGE_TEMPLATES,
    ROOT,
    SERVERS,
    VARIABLE_CHANGED,
    VARIABLES,
)

log = logging.getLogger(__name__)

PARTS = ("servers", "variables", "templates")


def current_image(store: Store) -> bytes:
    """Return the image of what is served now; an empty image before the first import or change."""
    root = store.names.get(ROOT)
    return Image().data if root is None else store.blobs.get(root)


def is_readonly(store: Store) -> bool:
    """Whether the current image forbids every change. Canonical JSON has sorted keys, so this is its first member."""
    return current_image(store).startswith(b'{"readonly":true,')


def root_history(store: Store, limit: int = 100) -> list[NameChange]:
    """Return the moves of the root, newest first: who changed the hub, when and why."""
    return store.names.past(ROOT, limit)


def import_image(store: Store, data: bytes, where: str, who: str, why: str, is_default: bool = False) -> str:
    """Import an image, completely or not at all, and return the root CID.

    Names of the previous image that this one does not have are removed. Other changes since then stay, also a change of
    a name that has the same value in both images, unless this image is read-only. Importing the same image twice does
    nothing. A missing configuration breaks its server alone. With `is_default` no image was named: the servers of this
    one are built in, and a new hub does not list them at /mcp. Raises ConfigError, or MissingBlob with every missing
    CID when another content is missing; then nothing has changed.
    """
    image = parse_image(data, where)
    now = store.names.all()
    built_in = _record_built_in(store, image, now, is_default)
    if now.get(BOOT) == image.cid:
        if now.get(BUILT_IN) != built_in:
            store.names.move({BUILT_IN: built_in}, who, why)
        return now[ROOT]
    record = {BUILT_IN: built_in} if now.get(BUILT_IN) != built_in else {}
    if missing_contents(image, store.blobs):
        raise MissingBlob(missing_cids(image, store.blobs), where)
    if lacking := missing_configurations(image, store.blobs):
        log.warning("%s: the store lacks %s; the servers that they configure are broken", where, ", ".join(lacking))
    changes: dict[str, str | None] = {}
    before: dict[str, str] = {}
    if BOOT in now:
        before = _cids(parse_image(store.blobs.get(now[BOOT]), now[BOOT]))
        changes |= dict.fromkeys(before)
    changes |= dict.fromkeys(f"{VARIABLES}{name}" for name in image.disabled)
    store.blobs.put_many(image.blobs().values())
    changes |= _cids(image)
    check_documents(store, {name: changes.get(name) for name in (LISTING, ACCESS)}, is_image=True)
    manual = {name for name, cid in changes.items() if _is_changed_by_hand(name, now, before) and now.get(name) != cid}
    kept = set() if image.readonly else {name for name in manual if name in before and changes[name] == before[name]}
    _log_manual_changes(where, kept, manual - kept)
    changes = {name: cid for name, cid in changes.items() if name not in kept}
    served = _build_image(_names_after(now, changes), store.blobs, image)
    root, boot = store.blobs.put(served.data), store.blobs.put(image.data)
    store.names.move({**changes, BOOT: boot, ROOT: root, **record}, who, why)
    _announce_variables(store, changes)
    return _agree_on_root(store, who, why)


def _record_built_in(store: Store, image: Image, now: Mapping[str, str], is_default: bool) -> str | None:
    """Store which servers of an image are built in, and return the CID of that; None for an image that was named."""
    if not is_default:
        return None
    # A hub that an earlier version began has an image and no such record: its clients use what /mcp lists.
    are_listed = read_built_in(store).are_listed if BUILT_IN in now else BOOT in now
    return store.blobs.put(built_in_servers(image, are_listed).to_json())


def change_names(
    store: Store,
    changes: Mapping[str, str | None],
    who: str,
    why: str,
    expected: Mapping[str, str | None] | None = None,
) -> str:
    """Point names (`servers/...`, `variables/...`, `templates/...`) to other CIDs; None removes a name.

    Returns the new root CID. With `expected`, the change is made only if these names still point there. Raises
    StaleUpdate when they do not, MissingBlob for CIDs that are not in the store, and ConfigError for a name or content
    that an image cannot hold and for a configuration document that cannot be read; then nothing has changed.
    """
    for name in changes:
        part, _, rest = name.partition("/")
        if part not in PARTS or not is_name(rest, part):
            raise ConfigError(name, "", "expected servers/<name>, variables/<name> or templates/<name>")
    wanted = [cid for cid in changes.values() if cid is not None]
    store.blobs.renew(wanted)
    missing = store.blobs.missing(wanted)
    if missing:
        raise MissingBlob(missing, why)
    check_documents(store, changes)
    planned = _names_after(_names_of_image(store), changes)
    served = _build_image(planned, store.blobs, read_image(current_image(store)))
    store.names.move({**changes, ROOT: store.blobs.put(served.data)}, who, why, expected)
    alone = _names_of_image(store) == {**planned, ROOT: served.cid}
    root = served.cid if alone else _agree_on_root(store, who, why)
    store.bus.publish(NAMES_CHANGED)
    _announce_variables(store, changes)
    return root


def _announce_variables(store: Store, names: Iterable[str]) -> None:
    """Report changed variables to the subscribers of resources that show them."""
    for name in names:
        if name.startswith(VARIABLES):
            store.bus.publish(f"{VARIABLE_CHANGED}{name.removeprefix(VARIABLES)}")


def _cids(image: Image) -> dict[str, str]:
    """Return the CID of each name of an image."""
    blobs = {name: cid_of(blob) for name, blob in image.blobs().items()}
    return blobs | {f"{PAGE_TEMPLATES}{name}": cid for name, cid in image.templates.items()}


def _is_changed_by_hand(name: str, now: Mapping[str, str], before: Mapping[str, str]) -> bool:
    """Whether a person changed this name since the last image. The watched folder manages its own names."""
    changed = now.get(name) != before.get(name)
    return changed and f"dropins/{name.removeprefix('servers/')}" not in now


def _log_manual_changes(where: str, kept: set[str], replaced: set[str]) -> None:
    """Log which manual changes since the last import stay and which are replaced."""
    if kept:
        log.info("%s keeps the changes that were made on this hub: %s", where, ", ".join(sorted(kept)))
    if replaced:
        log.warning(
            "%s replaces changes that were made on this hub since the last boot image: %s; /history can restore them",
            where,
            ", ".join(sorted(replaced)),
        )


def _names_of_image(store: Store) -> dict[str, str]:
    """Return the root, and the names that its image holds."""
    root = store.names.get(ROOT)
    names = {} if root is None else {ROOT: root}
    for part in PARTS:
        names |= store.names.all(f"{part}/")
    return names


def _agree_on_root(store: Store, who: str, why: str) -> str:
    """Return the root CID, after the root agrees with names that other processes moved at the same moment."""
    while True:
        now = _names_of_image(store)
        root = _build_image(now, store.blobs, read_image(store.blobs.get(now[ROOT])))
        if root.cid == now[ROOT]:
            return root.cid
        store.names.move({ROOT: store.blobs.put(root.data)}, who, why)


def _names_after(now: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    return {name: cid for name, cid in {**now, **changes}.items() if cid is not None}


def _build_image(names: Mapping[str, str], blobs: Blobs, base: Image) -> Image:
    """Build the image of these names. `base` supplies the disabled variables, the read-only flag, and what is checked:
    its own rows and texts.
    """
    wanted = {name: cid for name, cid in names.items() if name.startswith((SERVERS, VARIABLES))}
    read = blobs.get_many(wanted.values())
    contents = {
        name: read[cid] if cid in read else bytes_for_image(name, cid, blobs, base) for name, cid in wanted.items()
    }
    templates = {
        name.removeprefix(PAGE_TEMPLATES): cid for name, cid in names.items() if name.startswith(PAGE_TEMPLATES)
    }
    last = base.blobs()
    changed = _check_changed(
        {name: data for name, data in contents.items() if last.get(name) != data},
        {name: cid for name, cid in templates.items() if base.templates.get(name) != cid},
    )
    servers, variables = {**base.servers, **changed.servers}, {**base.variables, **changed.variables}
    enabled = {name: variables[name] for name in _below(VARIABLES, contents)}
    return Image(
        servers={name: servers[name] for name in _below(SERVERS, contents)},
        variables=enabled,
        disabled={name: text for name, text in base.disabled.items() if name not in enabled},
        templates={**templates, **changed.templates},
        readonly=base.readonly,
    )


def _below(prefix: str, names: Iterable[str]) -> list[str]:
    """Return the names with a prefix, without it."""
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]


def _check_changed(contents: Mapping[str, bytes], templates: Mapping[str, str]) -> Image:
    """Return the image of changed names alone. Raises ConfigError for what an image cannot hold."""
    document = {
        "version": 1,
        "readonly": False,
        "servers": [
            {"name": name.removeprefix(SERVERS), **_parse_row(name, data)}
            for name, data in contents.items()
            if name.startswith(SERVERS)
        ],
        "variables": [
            {"name": name.removeprefix(VARIABLES), "definition": _decode_variable(name, data), "enabled": True}
            for name, data in contents.items()
            if name.startswith(VARIABLES)
        ],
        "templates": [{"name": name, "cid": cid} for name, cid in templates.items()],
    }
    # Parse it like an image from outside, so that no change makes an image that cannot be imported.
    return parse_image(canonical_json(document), "the changed image")


def _parse_row(name: str, data: bytes) -> dict[str, Any]:
    try:
        row = parse(data)
    except ParseError as problem:
        raise ConfigError(name, "", f"expected a JSON object; {problem.message}") from problem
    if not isinstance(row, dict) or "name" in row:
        raise ConfigError(name, "", "expected a JSON object with definition_cid, kind and enabled")
    return row


def _decode_variable(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        raise ConfigError(
            name, "", "expected text in UTF-8; bytes go into a blob, the variable holds their CID"
        ) from problem
