"""The composition: opens the store, imports the boot image, loads the catalogue, registers the blueprints.

Decides nothing. `create_app` is what Granian loads in each worker and what the tests call.
"""

from __future__ import annotations

from flask import Flask

from patchbay import boot
from patchbay.catalogue.catalogue import Catalogue
from patchbay.protocol.asks import States
from patchbay.protocol.dispatch import Dispatcher
from patchbay.protocol.keys import load_key
from patchbay.protocol.lists import Lists
from patchbay.protocol.sessions import Sessions
from patchbay.protocol.subscriptions import ENDING, Listeners
from patchbay.protocol.turns import Desk, Running
from patchbay.settings import ROOT, Settings
from patchbay.stores import open_store
from patchbay.transports.content import content_blueprint
from patchbay.transports.drain import Drain
from patchbay.transports.failures import register_failures
from patchbay.transports.health import health_blueprint
from patchbay.transports.http import mcp_blueprint
from patchbay.transports.mcp_pages import mcp_pages_blueprint
from patchbay.transports.pages import pages_blueprint
from patchbay.transports.plain import plain_blueprint
from patchbay.transports.security import secure
from patchbay.transports.site import Site


def create_app(settings: Settings | None = None) -> Flask:
    """The hub as a WSGI application. Raises ConfigError or MissingBlob for settings or a boot image that are wrong."""
    settings = settings or Settings.load()
    store = open_store(settings.store, settings.data)
    image, where = boot.load(settings.boot, store)
    boot.import_image(store, image, where, who="start", why=f"boot image {settings.boot}")
    catalogue = Catalogue(store, settings)
    catalogue.start()
    drain = Drain(settings.drain)
    drain.on_begin(lambda: store.bus.publish(ENDING))

    key = load_key(None if settings.store == "memory" else settings.data)
    desk = Desk(
        catalogue=catalogue,
        settings=settings,
        sessions=Sessions(key, store.journal, settings.session_hours),
        lists=Lists(key, settings.page_size),
        listeners=Listeners(store, settings.keepalive, lambda: drain.begun),
        states=States(key),
        running=Running(),
    )
    site = Site(catalogue, settings)
    dispatcher = Dispatcher(desk)

    app = Flask("patchbay", static_folder="static", template_folder="templates", root_path=str(ROOT))
    app.extensions |= {"catalogue": catalogue, "drain": drain, "dispatcher": dispatcher}
    secure(app, settings)
    register_failures(app, site)
    app.register_blueprint(health_blueprint(catalogue, drain))
    app.register_blueprint(mcp_blueprint(dispatcher, settings))
    app.register_blueprint(mcp_pages_blueprint(site))
    app.register_blueprint(pages_blueprint(site))
    app.register_blueprint(content_blueprint(site))
    app.register_blueprint(plain_blueprint(site))
    return app
