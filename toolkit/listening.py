"""A server on a socket of its own: a port that is free or a sentence why not, a word when it is up, a clean end."""

import errno
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Final

from hopbudget.errors import Exit, UserError

if TYPE_CHECKING:
    import uvicorn

_KEEP_ALIVE_S: Final = 75
"""Longer than clients keep an idle connection or exporters wait between two sendings: one that closes just as the next
request is on its way fails that request."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 picks a free one. UserError if it can't be had (exit 4) or is no port (exit 2)."""
    if not 0 <= port <= 65_535:
        raise UserError(f"Port {port} is not between 0 and 65535; choose one, or --port 0 to be given a free one.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise UserError(_why_not(error, host, port), Exit.ENVIRONMENT) from None
    # Connections inherit it; without it a short answer waits 40 ms for the client's acknowledgement of its headers.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def address(listener: socket.socket) -> str:
    """The base address of what listens there."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def server(config: "uvicorn.Config", on_ready: Callable[[], None]) -> "uvicorn.Server":
    """A server that says when it is up, and leaves it to clients to close connections that they don't use."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            on_ready()

    config.timeout_keep_alive = _KEEP_ALIVE_S
    return Server(config)


def run_until_signal(running: "uvicorn.Server", listener: socket.socket) -> None:
    """Serve until Ctrl-C or SIGTERM. Only on the main thread."""
    handlers = {number: signal.signal(number, _ignore) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        running.run(sockets=[listener])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _why_not(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} on {host} is in use; choose another, or --port 0 to be given a free one."
    return f"Can't listen on {host} port {port}: {error.strerror or error}."


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """The server passes a signal on once it has shut down; by then there is nothing left to do."""
