"""A hub that takes the tokens of one issuer, in this process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from patchbay.access.authentication import Credentials, InsufficientScope, Unauthorized, authenticate
from patchbay.access.tokens.access_tokens import AccessTokens
from patchbay.access.tokens.problems import IssuerUnavailable
from patchbay.wire.resource_metadata import ResourceMetadata, find_client_origin
from patchbay.wire.responses import StartResponse, refusal
from tests.hubs import Hub


def guard(hub: Hub, scheme: AccessTokens) -> None:
    """Let a hub serve only requests with a token."""
    inner = hub.app.wsgi_app

    def answer(environ: Any, start_response: StartResponse) -> Iterable[bytes]:
        url = find_client_origin(environ) + environ["PATH_INFO"]
        headers = {
            name[5:].replace("_", "-").lower(): str(value)
            for name, value in environ.items()
            if name.startswith("HTTP_")
        }
        resource = url if environ["PATH_INFO"].startswith("/mcp") else ""
        credentials = Credentials(environ["REQUEST_METHOD"], url, headers, resource=resource)
        try:
            if authenticate([scheme], credentials) is None:
                raise Unauthorized("sign in", scheme.challenge(credentials))
        except (Unauthorized, InsufficientScope) as problem:
            header = ("WWW-Authenticate", problem.challenge)
            return refusal(problem.status, problem.message, header).send(start_response)
        except IssuerUnavailable as problem:
            return refusal(503, problem.message).send(start_response)
        return inner(environ, start_response)

    hub.app.wsgi_app = ResourceMetadata(  # type: ignore[method-assign]
        lambda _: [scheme.issuer.url], scheme.issuer.required_scopes, hub.settings, answer, scheme.find_metadata
    )
