"""The server's HTTP protocol with one thing more: an answer can reset its own connection.

An application finds it under `scope["extensions"]`, as ASGI provides for what only some servers can do.
"""

import asyncio
import socket
import struct
from typing import Any, Final, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from hopbudget.endpoint.playback import RESET

LINGER_NOT: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of zero seconds: close with RST, not FIN."""


class ResettableProtocol(H11Protocol):
    """HTTP/1.1 on a connection that can be reset."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Offer the reset to whatever answers on this connection."""
        super().connection_made(transport)
        app = self.app

        async def with_reset(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "extensions": {RESET: self.reset}}, receive, send)

        self.app = cast("Any", with_reset)

    def reset(self) -> None:
        """Drop the connection with a TCP reset; what the client has not read yet may be lost to it."""
        held: socket.socket | None = self.transport.get_extra_info("socket")
        if held is not None:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
        self.transport.abort()
