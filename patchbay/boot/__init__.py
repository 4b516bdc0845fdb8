"""The boot image: one JSON document that names every server, variable and template by CID.

The CID of the image is the root: it identifies the whole state of a hub. A start imports an image, completely or not at
all. Every later change of a server, variable or template goes through `change_names`, which makes a new root.

Names in the store:

    servers/<name>     the server's row without its name, as canonical JSON
    variables/<name>   the variable's definition (its value, or the CID of its value)
    templates/<name>   the template's bytes
    boot               the image that was imported last
    root               the image of what is served now
"""

from __future__ import annotations

from patchbay.boot.built_in import DEFAULT_IMAGE
from patchbay.boot.changes import change_names, current_image, import_image, is_readonly, root_history
from patchbay.boot.documents import (
    ConfigurationDocument,
    Variable,
    find_variable,
    read_document,
    read_variable,
    read_variable_at,
)
from patchbay.boot.image import Image, canonical_json, parse_image
from patchbay.boot.references import missing_cids, skill_files
from patchbay.boot.sources import load_image
from patchbay.topics import LISTING, MCPS

__all__ = [
    "DEFAULT_IMAGE",
    "LISTING",
    "MCPS",
    "ConfigurationDocument",
    "Image",
    "Variable",
    "canonical_json",
    "change_names",
    "current_image",
    "find_variable",
    "import_image",
    "is_readonly",
    "load_image",
    "missing_cids",
    "parse_image",
    "read_document",
    "read_variable",
    "read_variable_at",
    "root_history",
    "skill_files",
]
