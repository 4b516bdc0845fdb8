"""Keeps the compiled templates of the app's own pages in files, as Python keeps its compiled modules.

The files are in the folder `__pycache__` of this package. Each process that serves pages would otherwise compile all
templates again, which takes about a second of processor time. Where the folder cannot be written, nothing is kept.
"""

from __future__ import annotations

import pickle
import sys
from contextlib import suppress
from hashlib import sha256
from importlib.util import cache_from_source
from pathlib import Path
from tempfile import NamedTemporaryFile

import jinja2
from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket

FOLDER = Path(cache_from_source(__file__)).parent


class CompiledTemplates(BytecodeCache):
    """The compiled templates of one environment, below `folder`. A file that is damaged or out of date is not used.

    `settings` name the environment: others have other files. `code` is the code that the compiled form depends on:
    that of the extensions and of the filters, which Jinja calls when it compiles. Other code replaces the files.
    """

    def __init__(self, settings: str, code: str, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._settings = settings
        self._code = f"{jinja2.__version__} {code}"

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read a compiled template, if there is one of the same source."""
        with suppress(OSError, EOFError, ValueError, pickle.UnpicklingError):
            bucket.bytecode_from_string(self._file(bucket).read_bytes())

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write a compiled template in one step, for all users who may read the package."""
        if sys.dont_write_bytecode:
            return
        with suppress(OSError):
            self._folder.mkdir(exist_ok=True)
            with NamedTemporaryFile(dir=self._folder, suffix=".tmp", delete=False) as file:
                part = Path(file.name)
            try:
                part.write_bytes(bucket.bytecode_to_string())
                part.chmod(0o644)
                part.replace(self._file(bucket))
            except OSError:
                part.unlink(missing_ok=True)

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        """Return the name of the file of a template."""
        return sha256(f"{self._settings}\n{filename}\n{name}".encode()).hexdigest()[:32]

    def get_source_checksum(self, source: str) -> str:
        """Return the digest of the source and of the code, which a file has to name."""
        return sha256(f"{self._code}\n{source}".encode()).hexdigest()

    def _file(self, bucket: Bucket) -> Path:
        return self._folder / f"template-{bucket.key}.{sys.implementation.cache_tag}.bin"


def keep_compiled(environment: Environment, settings: str, folder: Path = FOLDER) -> Environment:
    """Let an environment, which has its filters and extensions, keep its compiled templates; return it.

    `settings` name what else changes the code that it compiles.
    """
    parts = [*environment.filters.values(), *map(type, environment.extensions.values())]
    modules = {sys.modules[one.__module__] for one in parts if hasattr(one, "__module__")}
    files = sorted(str(one.__file__) for one in modules if one.__name__.startswith("patchbay."))
    digest = sha256(b"\0".join(Path(one).read_bytes() for one in files)).hexdigest()
    environment.bytecode_cache = CompiledTemplates(f"{type(environment).__name__} {settings}", digest, folder)
    return environment
