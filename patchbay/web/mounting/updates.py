"""`/registry/updates`: the mounted packages with a newer version, and an update that is rehearsed before it is served.

The new version is started once, beside the hub, and what it lists is compared with the pins. When they differ, the page
says so, and the same button updates only with the consent that names this version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flask import Blueprint, Response, request

from patchbay.catalogue.operating.updates import find_changes, list_offered
from patchbay.catalogue.watching.mount_files import write_mount
from patchbay.client.registry.lookup import Registries
from patchbay.client.registry.packages import MountedPackage, mounted_packages, with_version
from patchbay.client.registry.versions import is_newer
from patchbay.errors import InvalidParams, PatchbayError
from patchbay.kinds.program_places import program_places
from patchbay.web.mounting.registry import PAGE as REGISTRY
from patchbay.web.operator.changes import explain_refusal, follow_folder, read_change_form
from patchbay.web.operator.login import redirect_to
from patchbay.web.pages.attention import store_newest
from patchbay.web.site.answers import render_answer, wants_json
from patchbay.web.site.site import Site

PAGE = f"{REGISTRY}/updates"


class _UpdatesViews:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._registries = Registries.of(site.settings)

    def show(self) -> Response:
        """GET: the mounted packages and their newest versions. Raises NotOperator."""
        self._site.operators.check_operator()
        return self._page(200)

    def update(self) -> Response:
        """POST: mount `version` of the package of the server `name`; `accept` although it lists other entries.

        Raises Refused, NotOperator, ReadOnly, InvalidParams.
        """
        form = read_change_form(self._site)
        name, version = form.get("name", ""), form.get("version", "")
        one = next((each for each in mounted_packages(self._site.settings.servers) if each.name == name), None)
        if one is None:
            raise InvalidParams(f"there is no mount {name!r:.100} of a package of PyPI or npm")
        try:
            newest = self._registries.newest(one.kind, one.package)
            if newest is None or newest != version:
                raise InvalidParams(f"the newest version of {one.package} is {newest}, not {version!r:.60}; look again")
            fields = with_version(one, newest)
            listed = list_offered(name, fields, program_places(self._site.settings))
            changes = list(find_changes(self._site.catalogue.store, name, listed))
        except PatchbayError as problem:
            if wants_json(request.headers.get("Accept", "")):
                raise InvalidParams(problem.message) from problem
            return self._page(422, problem)
        if changes and form.get("accept") != version:
            if wants_json(request.headers.get("Accept", "")):
                raise InvalidParams(f"{one.package} {version} lists other entries: {'; '.join(changes)}")
            return self._page(409, held={"name": name, "package": one.package, "version": version, "changes": changes})
        write_mount(self._site.settings.servers, name, fields, True)
        follow_folder(self._site)
        return redirect_to(PAGE)

    def _page(
        self, status: int, problem: PatchbayError | None = None, held: Mapping[str, Any] | None = None
    ) -> Response:
        packages = _describe_all(self._registries, list(mounted_packages(self._site.settings.servers)))
        newest = {f"{one['kind']}:{one['package']}": one["newest"] for one in packages if one["newest"]}
        if newest and not self._site.catalogue.readonly:
            store_newest(self._site.catalogue.store, newest)
        data = {
            "packages": packages,
            "problem": problem.message if problem else None,
            "held": held,
        }
        refusal, csrf = explain_refusal(self._site), self._site.operators.csrf()
        response = render_answer(self._site, "updates.html", "registry", data, refusal=refusal, csrf=csrf)
        response.status_code = status
        response.headers["Cache-Control"] = "no-store"
        return response


def _describe_all(registries: Registries, mounted: Sequence[MountedPackage]) -> list[dict[str, Any]]:
    """The mounted packages as JSON objects. A registry that gave no answer is not asked again."""
    silent: dict[str, str] = {}
    rows = []
    for one in mounted:
        newest, problem = None, silent.get(one.kind, "")
        if not problem:
            try:
                newest = registries.newest(one.kind, one.package)
                problem = "" if newest is not None else f"{one.kind} has no package {one.package}"
            except InvalidParams as failure:
                problem = failure.message
            except PatchbayError as failure:
                problem = silent[one.kind] = failure.message
        is_behind = newest is not None and is_newer(newest, one.version)
        found: dict[str, Any] = {"name": one.name, "kind": one.kind, "package": one.package, "version": one.version}
        rows.append(found | {"newest": newest, "behind": is_behind, "problem": problem or None})
    return rows


def updates_blueprint(site: Site) -> Blueprint:
    """The route `/registry/updates`."""
    views = _UpdatesViews(site)
    pages = Blueprint("updates", __name__)
    pages.add_url_rule(PAGE, "show", views.show)
    pages.add_url_rule(PAGE, "update", views.update, methods=["POST"])
    return pages
