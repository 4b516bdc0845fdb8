"""The blueprints of the pages, and what they share. `app.py` imports this module at the first request for a page."""

from __future__ import annotations

from functools import partial

from patchbay.access.limits.usage import Usage
from patchbay.access.people.accounts import Accounts
from patchbay.access.providers.provider import SECRET_USER, load_providers
from patchbay.access.providers.sign_ins import ProviderSignIns
from patchbay.access.secrets.folder import open_secrets_folder
from patchbay.access.secrets.variables import HubVariables
from patchbay.access.sign_in_settings import has_sign_in
from patchbay.protocol.dispatch import Dispatcher
from patchbay.protocol.hub_services import HubServices
from patchbay.settings import Settings, whole_environment
from patchbay.web.access.approvals import approvals_blueprint
from patchbay.web.access.audit import audit_blueprint
from patchbay.web.access.grants import grants_blueprint
from patchbay.web.access.keys import keys_blueprint
from patchbay.web.access.usage import CallerNumbers, usage_blueprint
from patchbay.web.access.webhooks import webhooks_blueprint
from patchbay.web.activity.activity import activity_blueprint
from patchbay.web.activity.usage import use_blueprint
from patchbay.web.api.blobs import uploads_blueprint
from patchbay.web.api.content import content_blueprint
from patchbay.web.api.health import health_blueprint
from patchbay.web.api.metrics import metrics_blueprint
from patchbay.web.api.plain import plain_blueprint
from patchbay.web.api.served_registry import served_registry_blueprint
from patchbay.web.application import Application, PageParts
from patchbay.web.compressed_files import add_compression
from patchbay.web.documents.editing import document_editing_blueprint
from patchbay.web.documents.reader import documents_blueprint
from patchbay.web.error_answers import register_error_handlers
from patchbay.web.history.history import history_blueprint
from patchbay.web.history.revocations import revocation_blueprint
from patchbay.web.inspection.inspected_servers import InspectedServers
from patchbay.web.inspection.inspecting import inspecting_blueprint
from patchbay.web.mounting.pasting import pasting_blueprint
from patchbay.web.mounting.registry import registry_blueprint
from patchbay.web.mounting.updates import updates_blueprint
from patchbay.web.oauth.endpoints import consent_blueprint, oauth_blueprint
from patchbay.web.openapi.document import add_json_addresses, openapi_blueprint
from patchbay.web.openapi.json_links import add_prefix_to_links
from patchbay.web.operator.login import operator_blueprint
from patchbay.web.operator.pins import pins_blueprint
from patchbay.web.operator.secrets import secrets_blueprint
from patchbay.web.page_security import add_security
from patchbay.web.pages.attention import Attention
from patchbay.web.pages.home import pages_blueprint
from patchbay.web.pages.hub import hub_blueprint
from patchbay.web.pages.nodes import nodes_blueprint
from patchbay.web.pages.schedules import list_failed_schedules, schedules_blueprint
from patchbay.web.pages.search import search_blueprint
from patchbay.web.pages.server_cards import server_cards_blueprint
from patchbay.web.pages.variables import variable_pages_blueprint
from patchbay.web.people.account import account_blueprint
from patchbay.web.people.browsers import Browsers
from patchbay.web.people.invitation import invitation_blueprint
from patchbay.web.people.people import people_blueprint
from patchbay.web.people.providers import find_new_proof, providers_blueprint
from patchbay.web.people.sign_in import login_values, sign_in_blueprint
from patchbay.web.rendering.app_frames import app_frames_blueprint
from patchbay.web.rendering.render_routes import rendering_blueprint
from patchbay.web.rooms.rooms import rooms_blueprint
from patchbay.web.scripts.script_run_list import script_run_list_blueprint
from patchbay.web.scripts.script_runs import script_runs_blueprint
from patchbay.web.scripts.script_trials import script_trials_blueprint
from patchbay.web.servers.editing import editing_blueprint
from patchbay.web.servers.icons import icons_blueprint
from patchbay.web.servers.mcp import mcp_pages_blueprint
from patchbay.web.servers.packages import packages_blueprint
from patchbay.web.servers.server import server_pages_blueprint
from patchbay.web.servers.switching import switching_blueprint
from patchbay.web.site.site import Site
from patchbay.web.toolsets.toolsets import toolsets_blueprint
from patchbay.web.upstreams.applicants import Applicants
from patchbay.web.upstreams.pages import upstreams_blueprint


def register_pages(app: Application) -> None:
    """Register the blueprints of a hub, in an app that has served no request, and set its `parts.for_pages`."""
    dispatcher, operators = app.parts.dispatcher, app.parts.operators
    services, settings = dispatcher.services, dispatcher.services.settings
    site = Site(
        services.catalogue, settings, services.activity, services.worker_pool.protections, services.access, operators
    )
    site.add_prefix_to_links = add_prefix_to_links
    site.count_waiting_calls = services.approvals.count_waiting
    site.count_failed_schedules = lambda: len(list_failed_schedules(services.scheduler))
    usage = Usage(services.quotas, services.ledger)
    attention = Attention(services.catalogue, settings.data, usage, services.scheduler)
    site.count_full = lambda: len(attention.list_full())
    site.find_attention = attention.state
    app.parts.drain.on_begin(site.directory.end)
    accounts = Accounts(settings, services.catalogue.store.journal, app.parts.keys, services.quotas.remember)
    app.parts.for_pages = PageParts(site, accounts, InspectedServers(settings, whole_environment()))
    _add_sign_in(app, site, services)
    _add_pages(app, site, dispatcher, attention)


def _add_script_pages(app: Application, site: Site, dispatcher: Dispatcher) -> None:
    """Register the pages of scripts: the field to try one, the runs that waited, and each run."""
    app.register_blueprint(script_run_list_blueprint(site, dispatcher.services.scripts))
    app.register_blueprint(script_runs_blueprint(site, dispatcher))
    app.register_blueprint(script_trials_blueprint(site))


def _add_pages(app: Application, site: Site, dispatcher: Dispatcher, attention: Attention) -> None:
    """Register the blueprints: pages, changes by the operator, and interfaces for programs."""
    parts, inspected_servers = app.parts, app.parts.for_pages.inspected_servers
    add_security(app, site.settings)
    add_compression(app)
    register_error_handlers(app, site)
    app.register_blueprint(health_blueprint(parts.health))
    app.register_blueprint(mcp_pages_blueprint(site))
    services = dispatcher.services
    app.register_blueprint(pages_blueprint(site, services.approvals, services.scheduler, attention))
    app.register_blueprint(server_pages_blueprint(site, dispatcher.services.scheduler))
    app.register_blueprint(hub_blueprint(site, dispatcher.services))
    app.register_blueprint(nodes_blueprint(site))
    app.register_blueprint(schedules_blueprint(site, dispatcher.services.scheduler))
    app.register_blueprint(icons_blueprint(site))
    app.register_blueprint(editing_blueprint(site))
    app.register_blueprint(pasting_blueprint(site, dispatcher.services.secrets))
    app.register_blueprint(switching_blueprint(site))
    app.register_blueprint(toolsets_blueprint(site))
    app.register_blueprint(documents_blueprint(site))
    app.register_blueprint(document_editing_blueprint(site))
    app.register_blueprint(variable_pages_blueprint(site))
    app.register_blueprint(history_blueprint(site))
    app.register_blueprint(revocation_blueprint(site))
    app.register_blueprint(pins_blueprint(site))
    app.register_blueprint(packages_blueprint(site))
    app.register_blueprint(registry_blueprint(site))
    app.register_blueprint(updates_blueprint(site))
    app.register_blueprint(search_blueprint(site))
    app.register_blueprint(rendering_blueprint(site))
    app.register_blueprint(app_frames_blueprint(site))
    app.register_blueprint(content_blueprint(site))
    app.register_blueprint(uploads_blueprint(site))
    app.register_blueprint(activity_blueprint(site, dispatcher))
    app.register_blueprint(use_blueprint(site, dispatcher.services.activity))
    _add_script_pages(app, site, dispatcher)
    app.register_blueprint(rooms_blueprint(site, dispatcher))
    app.register_blueprint(inspecting_blueprint(site, dispatcher, inspected_servers))
    app.register_blueprint(metrics_blueprint(site, dispatcher))
    app.register_blueprint(plain_blueprint(site, dispatcher.services.activity))
    app.register_blueprint(openapi_blueprint())
    app.register_blueprint(keys_blueprint(site, parts.keys))
    numbers = CallerNumbers(site, services.quotas, services.ledger, parts.keys, parts.for_pages.accounts.people)
    app.register_blueprint(usage_blueprint(site, numbers))
    people = parts.for_pages.accounts.people
    app.register_blueprint(
        grants_blueprint(
            site,
            lambda: [*(each.principal.id for each in people.list()), *(each.principal.id for each in parts.keys.all())],
        )
    )
    app.register_blueprint(approvals_blueprint(site, dispatcher.services.approvals))
    app.register_blueprint(secrets_blueprint(site, dispatcher.services.secrets))
    app.register_blueprint(webhooks_blueprint(site, dispatcher.services.webhooks))
    app.register_blueprint(server_cards_blueprint(site))
    app.register_blueprint(served_registry_blueprint(site))
    app.register_blueprint(audit_blueprint(site))
    add_json_addresses(app)
    if site.settings.workers != 1 or site.catalogue.store.is_shared:
        app.before_request(dispatcher.catch_up)  # no page is older than a change that another worker has acknowledged


def _add_sign_in(app: Application, site: Site, services: HubServices) -> None:
    """Register the blueprints with which people sign in, let clients act for them, and connect their accounts."""
    accounts = app.parts.for_pages.accounts
    browsers = Browsers(accounts, site.settings)
    providers = _open_providers(site.settings, accounts, services)
    if has_sign_in(site.settings):
        site.find_person = browsers.find_name
        site.operators.find_new_proof = partial(find_new_proof, accounts, browsers, providers)
    applicants = Applicants(site, browsers, app.parts.keys)
    tokens = services.upstream_tokens
    app.register_blueprint(upstreams_blueprint(site, applicants, tokens, services.upstream_sign_ins))
    app.register_blueprint(operator_blueprint(site, lambda: login_values(site, browsers, providers)))
    app.register_blueprint(sign_in_blueprint(site, accounts, browsers, providers))
    app.register_blueprint(providers_blueprint(site, browsers, providers))
    app.register_blueprint(invitation_blueprint(site, accounts, browsers))
    app.register_blueprint(account_blueprint(site, accounts, browsers, tokens, providers))
    app.register_blueprint(people_blueprint(site, accounts, providers))
    app.register_blueprint(consent_blueprint(site, accounts, browsers))
    app.register_blueprint(oauth_blueprint(site, accounts))


def _open_providers(settings: Settings, accounts: Accounts, services: HubServices) -> ProviderSignIns:
    """Return the sign-ins with identity providers, which also answer for the sessions that began with one."""
    variables = HubVariables(whole_environment(), services.secrets, open_secrets_folder(settings.secrets_dir))
    providers = ProviderSignIns(
        load_providers(settings),
        services.catalogue.store.journal,
        accounts.people,
        accounts.key,
        partial(variables.find, SECRET_USER),
        settings.sign_up == "invited",
    )
    accounts.sessions.confirm = providers.confirm
    return providers
