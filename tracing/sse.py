"""Server-sent events from bytes or lines as they come off the wire, to the JSON objects they carry.

Reading of lines and fields as the WHATWG HTML standard says (section 9.2, server-sent events).
"""

from typing import Any, Final

_DONE: Final = "[DONE]"
_LIMIT: Final = 1 << 22
"""Characters of one event that are kept; an event that is longer is let go, not the memory."""


def looks_like_events(piece: object) -> bool:
    """Whether the first piece of a stream is bytes, or a line that only an event stream would begin with."""
    if isinstance(piece, (bytes, bytearray, memoryview)):
        return True
    return isinstance(piece, str) and piece.startswith(("data:", "event:", "id:", "retry:", ":"))


class EventParser:
    """Fed with pieces cut anywhere, gives the JSON objects of the events that are complete.

    Bytes may end anywhere, in a character too. Pieces of text without a line end are lines that were split already.
    """

    __slots__ = ("_data", "_rest", "_size", "_skip_lf", "done")

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[str] = []
        self._size = 0
        self._skip_lf = False
        self.done = False

    def feed(self, piece: Any) -> list[Any]:
        """The events that this piece completes."""
        if isinstance(piece, str):
            ended = piece.endswith(("\n", "\r"))
            piece = piece.encode("utf-8", "surrogatepass") + (b"" if ended else b"\n")
        found: list[Any] = []
        for line in self._lines(bytes(piece)):
            event = self._line(line)
            if event is not None:
                found.append(event)
        return found

    def end(self) -> list[Any]:
        """The event that the end of the stream left without its blank line, if it is whole."""
        found = self.feed(b"\n\n") if self._rest else self.feed(b"\n")
        self._rest.clear()
        return found

    def _lines(self, piece: bytes) -> list[bytes]:
        if self._skip_lf and piece[:1] == b"\n":
            piece = piece[1:]
        if not piece:
            return []
        self._skip_lf = piece.endswith(b"\r")
        self._rest += piece
        if len(self._rest) > _LIMIT:
            self._rest.clear()
        lines = bytes(self._rest).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = bytearray(lines.pop())
        return lines

    def _line(self, line: bytes) -> Any:
        if not line:
            return self._dispatch()
        if line.startswith(b"data:") and self._size < _LIMIT:
            text = line[6:] if line[5:6] == b" " else line[5:]
            self._data.append(text.decode("utf-8", "replace"))
            self._size += len(text)
        return None

    def _dispatch(self) -> Any:
        if not self._data:
            return None
        text = "\n".join(self._data)
        self._data.clear()
        self._size = 0
        if text.startswith(_DONE):
            self.done = True
            return None
        try:
            import json  # not at the top: most processes never need it, and all of them import this

            return json.loads(text)
        except ValueError:
            return None
