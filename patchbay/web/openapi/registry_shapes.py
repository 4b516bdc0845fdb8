"""The JSON Schemas of the JSON responses about registries and pasted configurations, for the OpenAPI document."""

from __future__ import annotations

from patchbay.web.openapi.route_table import FLAG, TEXT, Schema, array_of, nullable, object_of

_SERVER: dict[str, Schema] = {
    **dict.fromkeys(("name", "title", "version", "description", "warning"), TEXT),
    **dict.fromkeys(("ways", "others"), array_of(TEXT)),
}

REGISTRY_SHAPES: dict[str, Schema] = {
    "Registry": object_of(
        q=TEXT,
        problem=nullable(TEXT),
        servers=array_of(object_of(**_SERVER)),
        server=nullable(
            object_of(
                **_SERVER,
                **dict.fromkeys(("way", "runs", "address", "seen"), TEXT),
                wanted=array_of(
                    object_of(
                        **dict.fromkeys(("name", "description"), TEXT),
                        **dict.fromkeys(("required", "secret", "fixed"), FLAG),
                        value=nullable(TEXT),
                        choices=array_of(TEXT),
                    )
                ),
            )
        ),
    ),
    "Pasted": object_of(
        problem=nullable(TEXT),
        servers=array_of(
            object_of(
                **dict.fromkeys(("name", "runs", "rights", "definition"), TEXT),
                problem=nullable(TEXT),
                unused=array_of(object_of(name=TEXT, reason=TEXT)),
                variables=array_of(object_of(name=TEXT, set=FLAG, dropped=FLAG)),
                taken=FLAG,
            )
        ),
    ),
    "Updates": object_of(
        packages=array_of(
            object_of(
                **dict.fromkeys(("name", "kind", "package", "version"), TEXT),
                newest=nullable(TEXT),
                behind=FLAG,
                problem=nullable(TEXT),
            )
        ),
        problem=nullable(TEXT),
        held=nullable(
            object_of(**dict.fromkeys(("name", "package", "version"), TEXT), changes=array_of(TEXT)),
        ),
    ),
}
