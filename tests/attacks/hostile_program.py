"""A mounted program that attacks the hub which started it: an MCP server over standard input and output.

Its tools take a path, a number or a name, and answer with what they got, or with `refused` and the reason.
"""

import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

CLONE_NEWUSER, CLONE_NEWNS, PTRACE_ATTACH, MNT_DETACH = 0x10000000, 0x00020000, 16, 2
HELD: list[socket.socket] = []
LIBC = ctypes.CDLL(None, use_errno=True)


def read(path: str) -> str:
    """Read the beginning of a file."""
    return Path(path).read_bytes()[:40].hex()


def write(path: str) -> str:
    """Write a file."""
    Path(path).write_text("written by a program")
    return "written"


def names(path: str) -> str:
    """List a folder."""
    return " ".join(sorted(one.name for one in Path(path).iterdir()))


def search_environments(text: str) -> str:
    """Search the environment of every process for a text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if text.encode() in (folder / "environ").read_bytes():
                found.append(folder.name)
    if not found:
        raise PermissionError("nothing found")
    return " ".join(found)


def processes() -> str:
    """Count the processes that it sees."""
    return str(len(list(Path("/proc").glob("[0-9]*"))))


def send_signal(pid: int) -> str:
    """Check whether a process could be signalled."""
    os.kill(int(pid), 0)
    return "sent"


def attach(pid: int) -> str:
    """Debug a process."""
    _check(LIBC.ptrace(PTRACE_ATTACH, ctypes.c_long(int(pid)), None, None))
    return "attached"


def connect(path: str) -> str:
    """Connect to a socket of a service; an abstract one begins with @."""
    with socket.socket(socket.AF_UNIX) as service:
        service.connect("\0" + path[1:] if path.startswith("@") else path)
    return "connected"


def reach(port: int) -> str:
    """Connect to a port of this machine."""
    socket.create_connection(("127.0.0.1", int(port)), 10).close()
    return "reached"


def reach_host(host: str, port: int) -> str:
    """Connect to a port of a host."""
    socket.create_connection((host, int(port)), 10).close()
    return "reached"


def resolve(name: str) -> str:
    """Look up the addresses of a name."""
    return " ".join(sorted({str(row[4][0]) for row in socket.getaddrinfo(name, 443)}))


def send_datagram(host: str, port: int) -> str:
    """Send a datagram, and wait for its answer."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(2)
        sender.connect((host, int(port)))
        sender.send(b"ping")
        return sender.recv(100).decode()


def ping(host: str) -> str:
    """Send a request for an echo of ICMP, over each kind of socket for that."""
    problem = OSError("no way")
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        try:
            with socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP) as sender:
                sender.sendto(b"\x08\x00\xf7\xff\x00\x00\x00\x00", (host, 0))
                return "sent"
        except OSError as found:
            problem = found
    raise problem


def fetch(url: str) -> str:
    """Get a URL, by the proxy that the environment names."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read()[:1000].decode())


def exchange(text: str) -> str:
    """Send a text to the proxy of this program, end the own direction, and return what comes."""
    host, _, port = os.environ["HTTP_PROXY"].removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), 10) as proxy:
        proxy.sendall(text.encode("latin-1"))
        proxy.shutdown(socket.SHUT_WR)
        found = b""
        while piece := proxy.recv(65536):
            found += piece
    return found[:4000].decode("latin-1")


def hold(count: int) -> str:
    """Open connections to the proxy, each with half a request, and keep them."""
    host, _, port = os.environ["HTTP_PROXY"].removeprefix("http://").partition(":")
    for _ in range(int(count)):
        one = socket.create_connection((host, int(port)), 10)
        with contextlib.suppress(OSError):
            one.sendall(b"CONNECT a.exa")
        HELD.append(one)
    return str(len(HELD))


def let_go() -> str:
    """Close what is kept."""
    while HELD:
        HELD.pop().close()
    return "closed"


def listen(host: str, port: int) -> str:
    """Listen on a port of an address, beside another program that listens there if the kernel permits it."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, int(port)))
        listener.listen()
    return "listening"


def uncover(path: str) -> str:
    """Remove what hides a folder, with all powers that a namespace of its own gives, and read a file in it.

    Only this folder: a program that is not confined must not remove what the machine has mounted.
    """
    LIBC.umount2(path.encode(), MNT_DETACH)
    user = os.getuid()
    if LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0:
        with contextlib.suppress(OSError):
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        LIBC.umount2(path.encode(), MNT_DETACH)
        LIBC.mount(b"none", path.encode(), None, 4096 | 32, None)
    return read(f"{path}/key")


def escape_by_root(path: str) -> str:
    """Look at the file system of another process."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            return (folder / "root" / path.lstrip("/")).read_bytes()[:40].hex()
    raise PermissionError("no way")


def leave(mark: str) -> str:
    """Leave a process behind that nothing of the program waits for; it has a mark in its command line."""
    subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(3600)", mark],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return "left"


def take_memory(mib: int) -> str:
    """Use memory."""
    return str(len(bytearray(int(mib) << 20)))


def environment() -> str:
    """Return its own environment and folder."""
    return json.dumps({**os.environ, "cwd": str(Path.cwd())})


def _check(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


TOOLS: dict[str, Callable[..., str]] = {
    tool.__name__: tool
    for tool in (
        *(read, write, names, search_environments, processes, send_signal, attach, connect, reach, listen),
        *(reach_host, resolve, send_datagram, ping, fetch, exchange, hold, let_go),
        *(uncover, escape_by_root, leave, take_memory, environment),
    )
}
INFO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "h", "version": "1"}}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request."""
    if method == "initialize":
        return INFO
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
    if method == "tools/call":
        given = list(params.get("arguments", {}).values())
        is_refused = False
        try:
            text = TOOLS[params["name"]](*given)
        except (OSError, MemoryError) as problem:
            is_refused, text = True, f"refused: {type(problem).__name__}: {problem}"
        return {"content": [{"type": "text", "text": text}], "isError": is_refused}
    return {}


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = answer(message["method"], message.get("params", {}))
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\n")
            sys.stdout.flush()
