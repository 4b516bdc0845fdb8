"""The kind of Python definitions: their functions, and the process in which they run."""

from __future__ import annotations

from typing import Any

from patchbay.activation import Call, Events, Handler
from patchbay.descriptors import Discovery, Problem
from patchbay.environments.environment import PackageEnvironment
from patchbay.environments.imports import missing_imports
from patchbay.environments.requirements import Requirements, read_script_block, requirements_of
from patchbay.errors import ConfigError, ServerFailed
from patchbay.kind import Confinement, EntryContext, Examination, Fields, Kind
from patchbay.kinds.confinement_description import confine_inline, confine_process
from patchbay.kinds.python.direct_calls import python_handler
from patchbay.kinds.python.workers.handler import hosted_handler
from patchbay.kinds.python.workers.worker_order import WorkerOrder
from patchbay.kinds.registry import INLINE, Handlers
from patchbay.python_functions.apps import app_files
from patchbay.python_functions.functions import discover_functions, return_line


def _make_handler(source: bytes, cid: str, name: str, config: Fields, using: Handlers) -> Handler:
    needs = requirements_of(source, name, config)
    required = {"requirements": needs.packages} if needs is not None else {}
    inline = using.worker_pool is None or _is_inline({**config, **required}, using.isolation)
    limits = using.limits(config, inline, name)
    own = using.folder(config, name)
    if needs is not None and (using.worker_pool is None or using.environments is None):
        return _refuse_without_packages(name, needs)
    if inline or using.worker_pool is None:
        return python_handler(source, cid, name)
    packages = _packages(needs, using)
    variables = config.get("environment", {})
    order = WorkerOrder(name, cid, source, limits, variables, own, packages, using.find_variables)
    return hosted_handler(using.worker_pool, order)


def _packages(needs: Requirements | None, using: Handlers) -> PackageEnvironment | None:
    """Return the environment of these requirements; None without requirements, or in a program that has none."""
    return using.environments.find(needs) if needs is not None and using.environments is not None else None


def _refuse_without_packages(name: str, needs: Requirements) -> Handler:
    def refuse(call: Call) -> Events:
        raise ServerFailed(f"{name} requires packages ({needs.names}), which only a running hub installs")

    return refuse


def _is_inline(config: Fields, isolation: str) -> bool:
    """Whether a server runs inside the hub process.

    One with its own environment, or with requirements, needs its own processes.
    """
    is_apart = config.get("environment") or config.get("requirements")
    return bool(config.get("isolation", "process" if is_apart else isolation) == INLINE)


def _examine(source: bytes, name: str, config: Fields, found: Discovery, using: Handlers) -> Examination:
    """Return the imports without a module, and the packages that the definition requires. Raises ConfigError."""
    needs, block = requirements_of(source, name, config), read_script_block(source, name)
    configured = tuple(config.get("requirements", ()))
    if needs is None:
        return Examination(missing_imports(found.imports, block, configured, None))
    if config.get("isolation") == INLINE:
        raise ConfigError(
            f"the configuration of {name}",
            "isolation",
            'code inside the hub has no packages of its own: write "isolation": "process", or remove the requirements',
        )
    packages = _packages(needs, using)
    problems: tuple[Problem, ...] = ()
    if packages is not None and packages.state == "failed":
        line = block.line if block is not None else None
        problems = (Problem("packages", f"its packages are {packages.sentence}", line, is_fault=True),)
    elif packages is not None and packages.site is not None:
        problems = missing_imports(found.imports, block, configured, packages.site)
    return Examination(problems, packages)


def _tool_target(ground: EntryContext, name: str, entry: Fields) -> dict[str, Any]:
    same = name if name in ground.functions else None
    chosen = entry.get("function") or same or ground.config.get("function") or "main"
    function = ground.function(str(chosen), f"tools.{name}")
    return {"function": function} | ({"streams": True} if function in ground.streaming else {})


def _confine(config: Fields, isolation: str, memory: int, upstream: Any) -> Confinement:
    if _is_inline(config, isolation):
        return confine_inline(config)
    return confine_process("in a process of its own", config, memory)


KIND = Kind(
    "python",
    "Python",
    language="python",
    endings=(".py",),
    discover=discover_functions,
    tool_target=_tool_target,
    return_line=return_line,
    app_files=app_files,
    make_handler=_make_handler,
    examine=_examine,
    confine=_confine,
)
