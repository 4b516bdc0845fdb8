"""The description of the machine and of the programs that are measured."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("flask", "granian", "fastmcp", "mcp")
NODE_PACKAGES = ("@modelcontextprotocol/sdk", "@modelcontextprotocol/server")


def describe_machine() -> dict[str, str]:
    """Describe processor, memory, system, load and versions, each as one line of text."""
    return dict(_described())


def _described() -> Iterator[tuple[str, str]]:
    yield "processor", _value("/proc/cpuinfo", "model name")
    yield "processors in use", str(len(os.sched_getaffinity(0)))
    yield "memory", f"{int(_value('/proc/meminfo', 'MemTotal').split()[0]) / 2**20:.1f} GiB"
    yield "system", f"{platform.system()} {platform.release()}"
    yield "load average at the start", " ".join(f"{one:.2f}" for one in os.getloadavg())
    yield "Python", platform.python_version()
    yield "commit", _output("git", "rev-parse", "--short=12", "HEAD")
    for name in PACKAGES:
        yield name, version(name)
    for name in NODE_PACKAGES:
        manifest = ROOT / ".node/node_modules" / name / "package.json"
        if manifest.exists():
            yield name, _value(str(manifest), '"version"').strip(' ",')


def _value(file: str, key: str) -> str:
    """Return what follows the colon in the first line that begins with a key."""
    for line in Path(file).read_text("utf-8").splitlines():
        if line.strip().startswith(key):
            return line.partition(":")[2].strip()
    return "unknown"


def _output(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
