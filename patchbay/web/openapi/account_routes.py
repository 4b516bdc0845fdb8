"""The rows of the table of routes for people and for the authorization server."""

from __future__ import annotations

from patchbay.web.openapi.route_table import ANY, Query, Route, array_of, form_body, object_of, schema_ref

CATALOGUE, CARD = "application/ai-catalog+json", "application/mcp-server-card+json"

JSON = "application/json"
HTML = "text/html"


_FOR = Query("for", "A key, for an administrator who connects an account for it: key:NAME.")
_CALLBACK = (
    Query("state", "The state of the sign-in."),
    Query("code", "The authorization code."),
    Query("iss", "The issuer (RFC 9207)."),
    Query("error", "The code of an error."),
    Query("error_description", "Its description."),
)
_REGISTRY = (
    Query("search", "A part of the names."),
    Query("limit", "Servers on a page: 30, at most 100."),
    Query("cursor", "The `nextCursor` of the page before."),
    Query("version", "The text `latest`, or a version."),
    Query("updated_since", "A time of RFC 3339."),
)
_KEY = Query("key", "The key of the invitation.", required=True)
_CEREMONY = schema_ref("Ceremony")
_AUTHORIZE = (
    Query("response_type", "The text `code`."),
    Query("client_id", "The id of the client, or the URL of its metadata document."),
    Query("redirect_uri", "Where the answer goes."),
    Query("scope", "What the client may do: see, call, read."),
    Query("state", "A value of the client, for its answer."),
    Query("code_challenge", "The S256 challenge of PKCE."),
    Query("code_challenge_method", "The text `S256`."),
    Query("resource", "The URL of the MCP endpoint."),
)
_TOKEN = form_body(
    "grant_type",
    **dict.fromkeys(("code", "redirect_uri", "code_verifier", "refresh_token", "scope", "resource"), ""),
    **dict.fromkeys(("client_id", "client_secret", "client_assertion_type", "client_assertion"), ""),
)

PEOPLE_ROUTES = (
    Route(
        "POST",
        "/login/password",
        "Sign in with a password.",
        body=form_body("name", "password", next=""),
        status=(303,),
    ),
    Route("GET", "/login/passkey", "The options to sign in with a passkey.", _CEREMONY),
    Route(
        "POST", "/login/passkey", "Sign in with a passkey.", body=form_body("ticket", "answer", next=""), status=(303,)
    ),
    Route(
        "POST",
        "/logout/person",
        "Sign out; of an identity provider too, with a page that leads there.",
        other=HTML,
        body=form_body(),
        status=(200, 303),
    ),
    Route(
        "GET",
        "/sign-in/<provider>",
        "Begin a sign-in with an identity provider.",
        query=(
            Query("next", "The page after the sign-in."),
            Query("again", "The text `yes` asks for a new proof of the person."),
        ),
        status=(303,),
    ),
    Route(
        "GET",
        "/sign-in/<provider>/callback",
        "The answer of an identity provider.",
        query=_CALLBACK,
        status=(303,),
    ),
    Route(
        "POST",
        "/sign-in/<provider>/backchannel-logout",
        "The identity provider ends sessions (OpenID Connect Back-Channel Logout).",
        object_of(),
        body=form_body("logout_token"),
    ),
    Route("GET", "/invitation", "The page of an invitation.", schema_ref("Invitation"), query=(_KEY,), other=HTML),
    Route("GET", "/invitation/passkey", "The options to make a passkey.", _CEREMONY, query=(_KEY,)),
    Route(
        "POST",
        "/invitation",
        "Make an account, with a password or a passkey.",
        body=form_body("key", password="", again="", ticket="", answer="", label=""),
        status=(303,),
    ),
    Route("GET", "/account", "The caller's own account.", schema_ref("Account"), other=HTML, status=(200, 303)),
    Route("GET", "/account/passkey", "The options to make one more passkey.", _CEREMONY),
    Route(
        "POST",
        "/account",
        "Change your own account: end a session or a client, disconnect an account, set a password, change passkeys.",
        body=form_body("csrf", "do", id="", password="", again="", ticket="", answer="", label=""),
        status=(303,),
    ),
    Route(
        "GET",
        "/upstreams",
        "The caller's accounts at mounted servers.",
        schema_ref("Upstreams"),
        query=(_FOR,),
        other=HTML,
        status=(200, 303),
    ),
    Route(
        "GET",
        "/upstreams/<server>",
        "The caller's account at one mounted server.",
        schema_ref("Upstream"),
        query=(_FOR,),
        other=HTML,
        status=(200, 303),
    ),
    Route(
        "POST",
        "/upstreams/<server>",
        "Connect or disconnect an account at a mounted server.",
        schema_ref("Upstream"),
        other=HTML,
        body=form_body("csrf", "do", **{"for": "", "id": "", "value.token": ""}),
        status=(200, 303),
    ),
    Route(
        "GET",
        "/upstreams/callback/<issuer>",
        "The answer of the authorization server of a mounted server.",
        schema_ref("Upstream"),
        query=_CALLBACK,
        other=HTML,
    ),
    Route("GET", "/upstreams/client/<issuer>", "The hub's client metadata document for mounted servers.", ANY),
    Route("GET", "/people", "The accounts of the hub.", array_of(schema_ref("Person")), other=HTML, operator=True),
    Route(
        "POST",
        "/people",
        "Invite a person, withdraw an invitation, or remove an account.",
        array_of(schema_ref("Person")),
        other=HTML,
        body=form_body("csrf", "do", name="", provider=""),
        status=(200, 303),
        operator=True,
    ),
)
"""Sign-in and accounts."""

CARD_ROUTES = (
    Route("GET", "/.well-known/ai-catalog.json", "The cards that the reader may see (AI Catalog).", other=CATALOGUE),
    Route("GET", "/mcp/server-card", "The card of all servers as one (SEP-2127).", other=CARD),
    Route("GET", "/mcp/<name>/server-card", "The card of a server (SEP-2127).", other=CARD),
    Route("GET", "/v0.1/servers", "The servers that the reader may see (MCP registry 0.1).", ANY, query=_REGISTRY),
    Route("GET", "/v0.1/servers/<name>/versions", "The versions of a server: its present one.", ANY),
    Route("GET", "/v0.1/servers/<name>/versions/<version>", "One version of a server, or `latest`.", ANY),
)
"""What programs read before they connect."""

OAUTH_ROUTES = (
    Route("GET", "/.well-known/oauth-authorization-server", "Metadata of the authorization server (RFC 8414).", ANY),
    Route("GET", "/.well-known/openid-configuration", "The same metadata, at the address of OpenID Connect.", ANY),
    Route("GET", "/oauth/jwks", "The keys of signed tokens: none, because tokens are opaque.", ANY),
    Route("POST", "/oauth/register", "Register a client (RFC 7591).", ANY, body={JSON: ANY}, status=(201,)),
    Route("POST", "/oauth/token", "Exchange a code or a refresh token for tokens.", ANY, body=_TOKEN),
    Route(
        "POST",
        "/oauth/revoke",
        "End a token (RFC 7009).",
        ANY,
        body=form_body("token", token_type_hint="", client_id=""),
    ),
    Route(
        "GET",
        "/oauth/authorize",
        "Ask the person to approve a client.",
        other=HTML,
        query=_AUTHORIZE,
        status=(200, 303),
    ),
    Route(
        "POST",
        "/oauth/authorize",
        "Approve or deny the client.",
        body=form_body("csrf", "request", "decision"),
        status=(303,),
    ),
)
"""The authorization server."""
