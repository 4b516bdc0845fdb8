"""`/servers/<name>`: the page of one server with its tabs Use, Source, Versions and Settings; comparisons of versions.

The pages only read; `settings.py` handles the form of Settings. They show broken versions too. As JSON, each tab but
Use has all values of the three others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any
from urllib.parse import quote

from flask import Blueprint, Response, request

from patchbay.activity.denied_folders import DeniedFolder, find_denied_folder
from patchbay.catalogue.building.previews import find_line
from patchbay.catalogue.servers.server import Server
from patchbay.client.contracts.drift import detect_schema_changes, find_gravest_kind
from patchbay.descriptors import Descriptor
from patchbay.errors import InvalidParams
from patchbay.kind import kind_named
from patchbay.processes.confinement.program_denials import is_proposable, is_public_host
from patchbay.processes.egress.egress_list import parse_egress_list, write_destination
from patchbay.protocol.schedules.scheduler import Scheduler
from patchbay.settings import hub_places, whole_environment
from patchbay.store import Store
from patchbay.topics import SERVED, SERVERS
from patchbay.upstreams.requested_hosts import load_requested_hosts
from patchbay.web.operator.changes import explain_refusal
from patchbay.web.pages.schedules import list_runs
from patchbay.web.rendering.content_kinds import decode_text
from patchbay.web.rendering.highlighting import format_readable, highlight_source
from patchbay.web.rendering.templates import format_json
from patchbay.web.rendering.text_comparison import Comparison, compare
from patchbay.web.servers.mcp import definition_text, find_shown_server, use_page
from patchbay.web.servers.settings import SAVED, ConfiguringView, ServerSettingsForm, SettingsDraft
from patchbay.web.servers.versions import MAX_MOVES, find_return, list_server_versions
from patchbay.web.site.answers import is_json_address, render_answer, wants_json
from patchbay.web.site.data import page_path
from patchbay.web.site.site import Site

GROUPS = (("resource", "resources"), ("template", "templates"), ("prompt", "prompts"))

DONE = ("on", "off", "restart", "writes", "reads", "network", "listed", "unlisted", SAVED)
"""Changes that the tab of settings confirms."""


class _ServerViews:
    def __init__(self, site: Site, scheduler: Scheduler) -> None:
        self._site = site
        self._store = site.catalogue.store
        self._scheduler = scheduler

    def use(self, name: str) -> Response:
        """GET /servers/<name>: its tools, resources and prompts, with forms; as JSON the values of the other tabs.

        Raises UnknownServer.
        """
        if is_json_address() or wants_json(request.headers.get("Accept", "")):
            return self._tab(name, "source")
        return use_page(self._site, name)

    def source(self, name: str) -> Response:
        """GET /servers/<name>/source: the definition and the configuration. Raises UnknownServer."""
        return self._tab(name, "source")

    def past(self, name: str) -> Response:
        """GET /servers/<name>/past: the versions and the changes. Raises UnknownServer."""
        return self._tab(name, "past")

    def settings(self, name: str) -> Response:
        """GET /servers/<name>/settings: addresses, isolation, and the buttons that change it. Raises UnknownServer."""
        return self._tab(name, "settings")

    def settings_with(self, name: str, draft: SettingsDraft) -> Response:
        """Show the tab *Settings* with what its form had. Raises UnknownServer."""
        return self._tab(name, "settings", draft)

    def _tab(self, name: str, tab: str, draft: SettingsDraft | None = None) -> Response:
        found, _ = find_shown_server(self._site, name)
        shown = self._site.visible.shows_source(found.name)
        text = definition_text(self._store, found) if shown else None
        versions = list_moves(self._store, f"{SERVED}{found.name}") if shown else []
        detail = self._site.detail(found)
        runs_apart = bool(detail["protections"])
        rows = list_server_versions(self._store, found.name, found.version) if shown and tab == "past" else []
        csrf, refusal = self._site.operators.csrf(), explain_refusal(self._site)
        has_form = shown and tab == "settings" and (refusal is None or draft is not None)
        data = {
            "server": detail,
            "source": text,
            "versions": versions,
            "past": list_moves(self._store, f"{SERVERS}{found.name}") if shown else [],
            "hosts": list_hosts(self._store, found) if shown else [],
        }
        return render_answer(
            self._site,
            f"server/{tab}.html",
            "servers",
            data,
            page=page_path(name),
            rows=rows,
            returned=find_return(rows) if request.args.get("back") else None,
            code=highlight_source(text, kind_named(found.kind).language) if text is not None else None,
            wrong=find_wrong_lines(found) if shown else {},
            config=highlight_source(format_json(found.config), "json") if found.config and shown else None,
            refusal=refusal,
            form=ServerSettingsForm(self._site).describe(found, draft) if has_form else None,
            revoked=self._site.catalogue.revoked_versions(found.name, [each["cid"] for each in versions]),
            csrf=csrf,
            schedules=list_runs(self._scheduler, found.name) if csrf and tab == "settings" else [],
            done=request.args.get("done") if request.args.get("done") in DONE else None,
            denied=self._find_denied(found) if runs_apart and shown and tab == "settings" else None,
            listed=self._is_listed(found.name),
        )

    def _is_listed(self, name: str) -> bool | None:
        """Whether the list at /mcp has a built-in server; None for another server."""
        listing = self._site.catalogue.listing
        return name not in listing.unlisted if name in listing.built_in else None

    def _find_denied(self, server: Server) -> DeniedFolder | None:
        """Return a folder or file that a tool was not allowed to use lately."""
        closed = hub_places(self._site.settings)
        is_offered = (
            partial(is_proposable, environ=whole_environment(), hub=closed)
            if server.kind == "upstream"
            else lambda _: True
        )
        return find_denied_folder(self._store.journal, server.name, server.config, is_offered)

    def compare(self, name: str) -> Response:
        """GET /servers/<name>/compare: compare the versions or definitions `old` and `new` of one name.

        Raises UnknownServer, InvalidParams.
        """
        old, new = (self._version(name, key) for key in ("old", "new"))
        definitions = self._compared(old.definition, new.definition)
        configs = self._compared(_own_config(old), _own_config(new))
        return render_answer(
            self._site,
            "versions.html",
            "servers",
            {
                "server": name,
                "old": _version_values(old),
                "new": _version_values(new),
                "meaning": describe_impact(old, new),
                "definition": asdict(definitions),
                "configuration": asdict(configs),
            },
            definitions=definitions,
            configs=configs,
            page=f"/servers/{quote(name, safe='')}",
        )

    def _version(self, name: str, key: str) -> Server:
        cid = request.args.get(key, "")
        if not cid:
            raise InvalidParams(f"expected old and new, two versions of {name[:128]!r}; {key} is missing")
        return self._site.visible.version(name, cid)

    def _compared(self, old: str | None, new: str | None) -> Comparison:
        return compare_contents(self._store, old, new)


def list_hosts(store: Store, server: Server) -> list[dict[str, Any]]:
    """Return what the program of a mounted server asked its proxy for, the latest first.

    `line` is the entry that a button offers for a refused host; empty without one.
    """
    network = server.config.get("network", True)
    if server.kind != "upstream" or isinstance(network, bool):
        return []
    listed = parse_egress_list(network)
    rows = []
    for one in load_requested_hosts(store.journal, server.name):
        missing = one.missing
        if missing is not None and listed.allows(*missing):
            missing = None
        line = write_destination(*missing) if missing is not None and is_public_host(missing[0]) else ""
        rows.append(asdict(one) | {"asked": write_destination(one.host, one.port), "line": line})
    return rows


def describe_impact(old: Server, new: Server) -> dict[str, Any]:
    """The effect of a change of version on callers.

    `tools` holds the changes of tools, graded by what breaks; `rest` holds the changes of resources, templates and
    prompts.
    """
    # Most tools are the same in both versions; equal digests show it quickly.
    same = {name for name, one in old.tools.items() if name in new.tools and new.tools[name].digest == one.digest}
    before, after = ([dict(one.wire) for name, one in each.tools.items() if name not in same] for each in (old, new))
    tools = detect_schema_changes(before, after)
    pairs = [(kind, _descriptors(old, group), _descriptors(new, group)) for kind, group in GROUPS]
    rest = [row for kind, before, after in pairs for row in listing_changes(kind, before, after)]
    return {"worst": find_gravest_kind(tools), "tools": [one.to_json() for one in tools], "rest": rest}


def listing_changes(
    kind: str, before: Mapping[str, Descriptor], after: Mapping[str, Descriptor]
) -> list[dict[str, str]]:
    """The descriptors of one kind that were added, removed or changed, by name."""
    rows = []
    for name in sorted({*before, *after}):
        if name not in after or name not in before:
            rows.append({"kind": kind, "name": name, "sentence": "removed" if name in before else "added"})
        elif before[name].digest != after[name].digest:
            old, new = before[name].wire, after[name].wire
            fields = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
            rows.append({"kind": kind, "name": name, "sentence": f"changed: {', '.join(fields)}"})
    return rows


def compare_contents(store: Store, old: str | None, new: str | None) -> Comparison:
    """Compare two contents line by line. JSON is indented first; None is an empty text."""
    texts = []
    for cid in (old, new):
        text = decode_text(store.blobs.get(cid)) if cid else ""
        if text is None:
            return Comparison(problem="one of the contents is not text") if old != new else Comparison()
        texts.append(format_readable(text))
    return compare(texts[0], texts[1])


def list_moves(store: Store, name: str) -> list[dict[str, Any]]:
    """The newest changes of a name, newest first."""
    return [asdict(move) for move in store.names.past(name, MAX_MOVES)]


def find_wrong_lines(server: Server) -> dict[int, str]:
    """The lines of a definition that have a problem, each with its message."""
    found = {each.line: f"{each.where}: {each.reason}" for each in reversed(server.problems) if each.line}
    line = find_line(server.broken) if server.broken else None
    if server.broken and line:
        found[line] = server.broken.partition(f"line {line}: ")[2] or server.broken
    return found


def _own_config(server: Server) -> str | None:
    return None if kind_named(server.kind).is_configuration else server.config_cid


def _descriptors(server: Server, group: str) -> Mapping[str, Descriptor]:
    found: Mapping[str, Descriptor] = getattr(server, group)
    return found


def _version_values(server: Server) -> dict[str, Any]:
    return {
        "version": server.version,
        "definition": server.definition,
        "config_cid": server.config_cid,
        "broken": server.broken,
        "tools": len(server.tools),
    }


def server_pages_blueprint(site: Site, scheduler: Scheduler) -> Blueprint:
    """`/servers/<name>` with the paths of its tabs, and `/servers/<name>/compare`."""
    views = _ServerViews(site, scheduler)
    pages = Blueprint("server_pages", __name__)
    pages.add_url_rule("/servers/<name>", "server", views.use)
    pages.add_url_rule("/servers/<name>/source", "source", views.source)
    pages.add_url_rule("/servers/<name>/past", "past", views.past)
    pages.add_url_rule("/servers/<name>/settings", "settings", views.settings)
    configuring = ConfiguringView(site, views.settings_with)
    pages.add_url_rule("/servers/<name>/configuration", "configuration", views.settings)
    pages.add_url_rule("/servers/<name>/configuration", "post_configuration", configuring.post, methods=["POST"])
    pages.add_url_rule("/servers/<name>/compare", "compare", views.compare)
    return pages
