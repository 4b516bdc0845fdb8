"""The boot image: one JSON document that names every server, variable and template by CID.

Its own CID is the root: the whole hub in one string. A start imports an image, all or nothing;
every later change of a server, variable or template goes through `change`, which makes a new root.

What stands in the store's names:

    servers/<name>     the server's row without its name, as canonical JSON
    variables/<name>   the variable's definition (its value, or the CID of its value)
    templates/<name>   the template's bytes
    boot               the image that was imported last
    root               the image of what is served now

Sources: DESIGN section 4; REQUIREMENTS VWR-33, VWR-34, V-F2, V-F15, V-F16.
"""

from __future__ import annotations

from patchbay.boot.changes import change, current_image, history, import_image, is_readonly, variable
from patchbay.boot.documents import (
    Document,
    in_force,
)
from patchbay.boot.image import Image, canonical_json, parse_image
from patchbay.boot.references import files_of_skills, missing_from
from patchbay.boot.sources import load
from patchbay.topics import LISTING, MCPS

__all__ = [
    "LISTING",
    "MCPS",
    "Document",
    "Image",
    "canonical_json",
    "change",
    "current_image",
    "files_of_skills",
    "history",
    "import_image",
    "in_force",
    "is_readonly",
    "load",
    "missing_from",
    "parse_image",
    "variable",
]
