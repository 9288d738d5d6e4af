"""Where the answer begins in a text whose model may think aloud between `<think>` and `</think>` first."""

from typing import Final

_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"


class AnswerFinder:
    """Finds the time of the first answer character in text that comes in pieces.

    White space and `<think>` parts are no answer, even when a tag is split over pieces. A `<` that turns out not to
    begin the tag is an answer, and counts from the piece it came in.
    """

    __slots__ = ("_held", "_held_ns", "_thinking", "thought")

    def __init__(self) -> None:
        self.thought = False
        self._thinking = False
        self._held = ""
        self._held_ns = 0

    def feed(self, text: str, now_ns: int) -> int | None:
        """The time of the first answer character, if this piece holds it or settles that an earlier one did."""
        held_ns = self._held_ns if self._held else now_ns
        text, self._held = self._held + text, ""
        while True:
            if self._thinking:
                _, closed, rest = text.partition(_CLOSE)
                if not closed:
                    self._held = text[1 - len(_CLOSE) :]
                    return None
                self._thinking = False
            else:
                rest = text.lstrip()
                if not rest:
                    return None
                if not rest.startswith(_OPEN):
                    if not _OPEN.startswith(rest):
                        return held_ns
                    self._held, self._held_ns = rest, held_ns
                    return None
                self._thinking = self.thought = True
                rest = rest[len(_OPEN) :]
            text, held_ns = rest, now_ns

    def end(self) -> int | None:
        """The time of the first answer character if the text ended on what looked like the begin of a tag."""
        return self._held_ns if self._held and not self._thinking else None
