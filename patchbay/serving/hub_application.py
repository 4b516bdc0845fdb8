"""What a worker needs of the application that it serves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # the supervisor loads this module, and none of what its workers need
    from patchbay.protocol.dispatch import Dispatcher
    from patchbay.serving.drain import Drain
    from patchbay.serving.health import Health
    from patchbay.wire.pipeline import Pipeline


class LatePages(Protocol):
    """The pages, which are loaded at the first request for one."""

    def prepare(self, run: Callable[[], None]) -> None:
        """Run a preparation of the pages as soon as they are loaded."""
        ...


class HubParts(Protocol):
    """The parts of an application; `for_pages` and `operators` are known by their use only."""

    @property
    def dispatcher(self) -> Dispatcher: ...

    @property
    def drain(self) -> Drain: ...

    @property
    def health(self) -> Health: ...

    @property
    def operators(self) -> Any: ...

    @property
    def pages(self) -> LatePages: ...

    @property
    def for_pages(self) -> Any: ...

    @property
    def pipeline(self) -> Pipeline: ...


class HubApplication(Protocol):
    """A WSGI application of a hub."""

    @property
    def parts(self) -> HubParts: ...

    @property
    def wsgi_app(self) -> Callable[[Any, Any], Iterable[bytes]]: ...

    def replace_wsgi_app(self, wsgi_app: Callable[[Any, Any], Iterable[bytes]]) -> None:
        """Answer requests by another application, which is around this one."""
        ...

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]: ...
