"""The form for the configuration of a server on its tab *Settings*, with the text of the same document beside it.

One form has both. The fields that its sender changed are put into the text that came with them, so that what the form
does not know stays as it is. *Check* shows both again, *Save* stores the document; an error loses nothing that was
typed, and stands beside its field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flask import Response, request

from patchbay.catalogue.building.previews import preview_settings
from patchbay.catalogue.operating.server_settings import (
    StoredSettings,
    find_settings_errors,
    read_settings,
    save_settings,
)
from patchbay.catalogue.servers.server import Server
from patchbay.errors import (
    ConfigError,
    ContentError,
    InvalidParams,
    ParseError,
    PatchbayError,
    Refused,
    UnknownServer,
)
from patchbay.jsonrpc import parse_file, parse_object
from patchbay.kind import configured_kind, kind_named
from patchbay.settings import hub_places
from patchbay.topics import SERVERS
from patchbay.web.mounting.pasting import check_public
from patchbay.web.operator.changes import find_author, follow_folder, read_draft_form
from patchbay.web.operator.login import redirect_to
from patchbay.web.servers.mcp import find_shown_server
from patchbay.web.servers.settings_fields import MAX_TOOLS, FormField, list_sections, set_value, unshown_names
from patchbay.web.site.answers import wants_json
from patchbay.web.site.data import page_path
from patchbay.web.site.site import Site
from patchbay.wire.requests.authentication import is_local_request
from patchbay.wire.requests.wsgi import request_of

SAVED = "saved"
"""What the page says after a change was stored."""

MAX_FORM_FIELDS = 300
"""Fields of the form: some dozens for the server, and a few for each of MAX_TOOLS tools."""

LOCAL_FIELDS = ("root", "address", "document", "base", "oauth", "credentials")
"""Fields that name files or addresses of the hub's machine."""


@dataclass
class SettingsDraft:
    """What a form for the settings of a server holds: the text, and the text that its fields were made of (`shown`).

    `base` is the CID of the stored configuration that the author started from. `typed` are the texts of the controls
    that differ from `shown`, `problems` the errors by the name of a field, `others` those of no field. `is_save` says
    that the form was to be saved, not only checked.
    """

    text: str
    shown: str
    base: str
    typed: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    is_save: bool = True

    @property
    def has_errors(self) -> bool:
        return bool(self.problems or self.others)


class ServerSettingsForm:
    """The forms for the settings of the servers of one hub."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.catalogue.store

    def describe(self, server: Server, draft: SettingsDraft | None = None) -> dict[str, Any]:
        """Return the values of the form for the template; with `elsewhere` alone where the settings are not here."""
        try:
            stored = read_settings(self._store, server)
        except (PatchbayError, UnicodeDecodeError) as problem:
            return {"elsewhere": problem.message if isinstance(problem, PatchbayError) else "it is not text"}
        draft = draft or SettingsDraft(stored.text, stored.text, stored.cid)
        document = _parse(draft.shown) or {}
        sections = self._sections(server, document)
        names = {one.keys[0] for _, each in sections for one in each}
        shown = [(title, [_describe(one, document, draft) for one in each]) for title, each in sections]
        tools = [(title, each) for title, each in shown if each[0]["keys"][0] == "tools"]
        plain = [(title, [one for one in each if one["value"] is not None]) for title, each in shown]
        return {
            "elsewhere": "",
            "sections": [(title, each) for title, each in plain if each and each[0]["keys"][0] != "tools"],
            "tools": [(title, each) for title, each in tools if all(one["value"] is not None for one in each)],
            "more_tools": max(0, len(_own_tools(server)) - MAX_TOOLS),
            "text": draft.text,
            "shown": draft.shown,
            "base": draft.base,
            "others": draft.others,
            "wrong": [one for _, each in shown for one in each if one["problem"]],
            "only_text": [
                name
                for name in unshown_names(document, [one for _, each in sections for one in each])
                if name != "tools" or name not in names
            ],
            "place": "the file of the server" if server.origin.startswith(SERVERS) else "the hub",
        }

    def _sections(self, server: Server, document: Mapping[str, Any]) -> list[tuple[str, list[FormField]]]:
        kind = configured_kind(document)
        if kind is not None and "kind" not in document:
            return []  # the form of another program: its fields have other names
        is_program = str(document.get("address", "")).startswith("mcp+")
        return list_sections(server.kind, is_program, _own_tools(server))

    def post(self, server: Server) -> SettingsDraft | None:
        """Check or save the form of a request; return the draft to show again, None after it was saved.

        Raises Refused for a form of another site, ReadOnly, and ConfigError for settings that are not here.
        """
        fields, refused = read_draft_form(self._site, MAX_FORM_FIELDS)
        stored = read_settings(self._store, server)
        draft = SettingsDraft(
            fields.get("text", fields.get("shown", stored.text)),
            fields.get("shown", stored.text),
            fields.get("base", ""),
            is_save=fields.get("action") == "save",
        )
        text = self._merge(server, draft, fields)
        if refused is not None:
            draft.others.append(f"{refused.message}. What you typed is kept: press the button again, or log in first")
            return draft
        if text is None:
            return draft
        self._check(server, stored, text, draft)
        if draft.has_errors:
            return draft
        if not draft.is_save:
            return SettingsDraft(text, text, draft.base)
        try:
            self._save(server, stored, text, draft)
        except ContentError as problem:
            draft.others.append(problem.message)
            return draft
        follow_folder(self._site)
        return None

    def _merge(self, server: Server, draft: SettingsDraft, fields: Mapping[str, str]) -> str | None:
        """Put the fields that were changed into the text of the draft; return it, or None with an error."""
        before = _parse(draft.shown) or {}
        changed: list[tuple[FormField, str]] = []
        for _, each in self._sections(server, before):
            for one in each:
                was, now = one.show(before), _typed(one, fields)
                if was is not None and now is not None and now != was:
                    draft.typed[one.name] = now
                    changed.append((one, was))
        document = _parse(draft.text)
        if document is None:
            draft.others.append(_explain_text(draft.text))
            return None
        merged = document
        for one, was in changed:
            typed = draft.typed[one.name]
            if one.show(document) not in (was, typed):
                draft.problems[one.name] = "The text has another new value for this field: change one of the two"
                continue
            try:
                merged = set_value(merged, one.keys, one.read(typed))
            except ValueError as problem:
                draft.problems[one.name] = str(problem)
        return None if draft.problems else draft.text if merged == document else _format(merged)

    def _check(self, server: Server, stored: StoredSettings, text: str, draft: SettingsDraft) -> None:
        """Add the errors of a text to a draft."""
        errors = find_settings_errors(text, server, stored.text, hub_places(self._site.settings))
        if not errors:
            errors = list(self._check_reach(stored, text))
        if not errors:
            connections = self._site.catalogue.connections
            found = preview_settings(stored.row, text.encode(), self._store.blobs, server, connections)
            known = {(one.where, one.reason) for one in server.problems}
            if found.fault is not None and not server.broken:
                errors = [ConfigError("the settings", "", found.fault.reason)]
            elif found.server is not None:
                fresh = [one for one in found.server.problems if (one.where, one.reason) not in known]
                errors = [ConfigError("", one.where, one.reason) for one in fresh if one.where.startswith("tools.")]
        names = [one.name for _, each in self._sections(server, _parse(text) or {}) for one in each]
        for error in errors:
            near = [name for name in names if f"{error.path}.".startswith(f"{name}.")]
            sentence = error.expected.rpartition(f"{error.path}: ")[2] if error.path else error.expected
            if near:
                draft.problems.setdefault(max(near, key=len), sentence)
            else:
                draft.others.append(f"at {error.path}: {sentence}" if error.path else sentence)

    def _check_reach(self, stored: StoredSettings, text: str) -> list[ConfigError]:
        """Refuse a reader elsewhere who lets the hub reach files or private addresses of its machine."""
        if is_local_request(request_of(request.environ)):
            return []
        before, after = _parse(stored.text) or {}, _parse(text) or {}
        for name in LOCAL_FIELDS:
            if after.get(name) != before.get(name) and name in after:
                try:
                    if name == "root":
                        raise Refused("only an operator on the machine of the hub can serve another folder of it")
                    check_public(after)
                except PatchbayError as problem:
                    return [ConfigError("the settings", name, problem.message)]
        return []

    def _save(self, server: Server, stored: StoredSettings, text: str, draft: SettingsDraft) -> None:
        before, after = _parse(stored.text) or {}, _parse(text) or {}
        names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        if not names and text == stored.text:
            return
        why = f"settings of {server.name}: {', '.join(names) or 'the form of the text'}"[:500]
        folder = self._site.settings.servers
        save_settings(self._store, folder, stored, draft.base, text, find_author(self._site), why)


class ConfiguringView:
    """POST /servers/<name>/configuration; `render` shows the tab with a draft."""

    def __init__(self, site: Site, render: Callable[[str, SettingsDraft], Response]) -> None:
        self._site = site
        self._form = ServerSettingsForm(site)
        self._render = render

    def post(self, name: str) -> Response:
        """Check or save (`action`) the form and the text of a server's configuration; an error keeps both.

        Raises Refused, ReadOnly, UnknownServer, and InvalidParams for a reader of JSON and for settings that are not
        here.
        """
        server, _ = find_shown_server(self._site, name)
        if not self._site.visible.shows_source(server.name):
            raise UnknownServer(f"there is no server {name[:128]!r} here")
        try:
            draft = self._form.post(server)
        except ConfigError as problem:
            raise InvalidParams(problem.message) from problem
        if draft is None:
            return redirect_to(f"{page_path(server.name)}/settings?done={SAVED}")
        if draft.has_errors and wants_json(request.headers.get("Accept", "")):
            found = [*draft.others, *(f"at {path}: {text}" for path, text in draft.problems.items())]
            raise InvalidParams(f"the settings of {server.name} were not saved: {'; '.join(found)}")
        response = self._render(name, draft)
        response.status_code = 422 if draft.has_errors and draft.is_save else 200
        return response


def _own_tools(server: Server) -> list[str]:
    """Return the tools whose entries the configuration of a server may have."""
    if kind_named(server.kind).configuration is not None:
        return []
    return [one.name for one in server.tools.values() if one.source in ("static", "discovered")]


def _typed(one: FormField, fields: Mapping[str, str]) -> str | None:
    """Return the text of a control as a form sent it; None for a control that the form did not have."""
    given = fields.get(one.name)
    if given is None:
        return None
    given = given.strip("\n") if one.form == "text" else given.strip()
    if one.form == "hosts" and given == "list":
        return "\n".join(["list", *fields.get(f"{one.name}.list", "").split()])
    return given


def _describe(one: FormField, document: Mapping[str, Any], draft: SettingsDraft) -> dict[str, Any]:
    """Return the values of one field for the template."""
    value = draft.typed.get(one.name, one.show(document))
    return {
        "keys": one.keys,
        "name": one.name,
        "label": one.label,
        "hint": one.hint,
        "form": one.form,
        "options": one.options,
        "value": value,
        "list": (value or "").partition("\n")[2] if one.form == "hosts" else "",
        "problem": draft.problems.get(one.name, ""),
        "least": one.least,
        "most": one.most,
        "step": one.step,
        "default": one.default,
    }


def _parse(text: str) -> dict[str, Any] | None:
    """Return the object of a JSON text; None for any other text."""
    return parse_object(text.encode("utf-8", "replace"))


def _explain_text(text: str) -> str:
    """Say why a text is not the configuration of a server."""
    try:
        parse_file(text.encode("utf-8", "replace"))
    except ParseError as problem:
        return f"The text is not JSON: it {problem.message.removeprefix('the body ')}"
    return "The text must be a JSON object: { ... }"


def _format(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
