"""Opens the store in the data folder for a command, and reports what prevents it as one sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from patchbay import boot, exit_codes
from patchbay.access.given_key import place_given_key
from patchbay.cli.terminal.broken_pipe import discard_output
from patchbay.cli.terminal.messages import fail
from patchbay.errors import PatchbayError, ReadOnly, StoreFailed
from patchbay.settings import Settings
from patchbay.store import Store, store_exists
from patchbay.stores import open_store

CHANGED_BY = "command line"
"""The author in the history of changes that commands make."""


@contextmanager
def opened_store(
    settings: Settings, without_folder: str = "", needs_data: bool = False, is_change: bool = False
) -> Iterator[Store]:
    """Open the store in the data folder; close it after the block.

    `without_folder` says what to do instead for a hub in memory; the process ends with it. With `needs_data`, it ends
    too when no hub has used the folder. With `is_change`, raises ReadOnly for a hub that was booted read-only.
    """
    if without_folder and settings.store == "memory":
        fail(f"a hub in memory has no data folder: {without_folder}", exit_codes.USAGE)
    if needs_data:
        check_has_data(settings)
    place_given_key(settings)
    try:
        store = open_store(settings.store, settings.data, blobs=settings.blobs)
    except StoreFailed as problem:
        raise StoreFailed(str(problem), str(problem)) from problem
    try:
        if is_change and boot.is_readonly(store):
            raise ReadOnly("this hub was booted read-only: you cannot change anything")
        yield store
    except StoreFailed as problem:
        raise StoreFailed(str(problem), str(problem)) from problem
    finally:
        store.close()


def check_has_data(settings: Settings, has_key: bool = True) -> None:
    """End the process when no hub has used the data folder; `has_key` says whether the folder has the hub's key."""
    if not store_exists(settings.store, settings.data) or not has_key:
        fail(f"there is no data of a hub in {settings.data}; --data names its folder", exit_codes.USAGE)


@contextmanager
def errors_as_sentence() -> Iterator[None]:
    """End the process with one sentence when the block raises an error of the hub or of the data folder.

    When the reader of the output is gone, end it without a sentence.
    """
    try:
        yield
    except PatchbayError as problem:
        fail(problem.message, exit_codes.USAGE)
    except BrokenPipeError:
        discard_output()
        sys.exit(exit_codes.UNREAD)
    except OSError as problem:
        fail(f"the data folder cannot be used: {problem}; `patchbay doctor` checks it", exit_codes.USAGE)
