"""The context of one request: the argument of every method function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from patchbay.activation import CancelFlag
from patchbay.activity.call_recording import CallRecording
from patchbay.catalogue.servers.server import Server
from patchbay.catalogue.visible_catalogue import VisibleCatalogue
from patchbay.jsonrpc import Request
from patchbay.messages.callers import Caller
from patchbay.protocol.hub_services import HubServices


class RequestContext(NamedTuple):
    """One request with its caller, its server, and its cancel flag. A tuple, because each request makes one.

    `proxied` says that the client called the tool through `call_tool`. `asked_uri` is the URI that the client
    knows, where the server has another one. `app` is the URI of the app that sends the request, empty for one that no
    server here has. `run` is the record of a request that runs code.
    """

    services: HubServices
    request: Request
    caller: Caller
    server: Server
    cancelled: CancelFlag
    proxied: bool = False
    asked_uri: str | None = None
    app: str | None = None
    run: CallRecording | None = None

    @property
    def params(self) -> Mapping[str, Any]:
        return self.request.params

    @property
    def catalogue(self) -> VisibleCatalogue:
        """The catalogue as the caller may see it."""
        return self.services.access.catalogue_for(self.caller.wire.sender)
