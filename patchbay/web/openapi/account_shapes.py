"""The JSON Schemas of the JSON responses about accounts, for the OpenAPI document."""

from __future__ import annotations

from patchbay.web.openapi.route_table import FLAG, INTEGER, LINK, TEXT, UNIX, Schema, array_of, nullable, object_of

_UPSTREAM_ACCOUNT = object_of(
    id=TEXT, server=TEXT, label=TEXT, issuer=TEXT, scope=TEXT, at=UNIX, by=TEXT, refused_at=UNIX
)
_UPSTREAM_FIELD = object_of(name=TEXT, label=TEXT, is_secret=FLAG)
_UPSTREAM = {
    **{"server": TEXT, "label": TEXT, "account": nullable(_UPSTREAM_ACCOUNT), "page": LINK},
    **{"way": TEXT, "fields": array_of(_UPSTREAM_FIELD)},
}
_OUTSIDE = {
    **dict.fromkeys(("shown", "principal", "provider", "issuer", "subject", "email"), TEXT),
    "groups": array_of(TEXT),
    "seen": nullable(UNIX),
}
"""What an identity provider says about a person; empty texts for another person."""

ACCOUNT_SHAPES: dict[str, Schema] = {
    "Ceremony": object_of(options={"type": "object"}, ticket=TEXT),
    "Invitation": object_of(name=TEXT, has_account=FLAG),
    "Person": object_of(
        name=TEXT, at=UNIX, has_password=FLAG, passkeys=INTEGER, sessions=INTEGER, clients=INTEGER, **_OUTSIDE
    ),
    "Account": object_of(
        name=TEXT,
        at=UNIX,
        has_password=FLAG,
        passkeys=array_of(object_of(id=TEXT, name=TEXT, host=TEXT, at=UNIX)),
        sessions=array_of(object_of(id=TEXT, browser=TEXT, at=UNIX, is_this=FLAG)),
        clients=array_of(object_of(id=TEXT, name=TEXT, client=TEXT, resource=TEXT, may=array_of(TEXT), at=UNIX)),
        upstreams=array_of(_UPSTREAM_ACCOUNT),
        **_OUTSIDE,
    ),
    "Upstream": object_of(**_UPSTREAM, principal=TEXT),
    "Upstreams": object_of(
        principal=TEXT, servers=array_of(object_of(**_UPSTREAM)), others=array_of(_UPSTREAM_ACCOUNT)
    ),
}
