"""Where the answer begins in a text whose model may think aloud between `<think>` and `</think>` first."""

from typing import Final

_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"


class AnswerFinder:
    """Finds the time of the first answer character in text that comes in pieces.

    White space and `<think>` parts are no answer, even when a tag is split over pieces. A `<` that turns out not to
    begin the tag is an answer, and counts from the piece it came in. Some models are prompted with the opening tag, so
    that only the closing one comes: then what came before it was no answer either.

    `waiting`: any text matters. Otherwise an answer was found, and only a piece with a `<` can change that; `settled`:
    nothing can.
    """

    __slots__ = ("_held", "_held_ns", "_thinking", "answer_ns", "settled", "thought", "waiting")

    def __init__(self) -> None:
        self.answer_ns: int | None = None
        self.thought = False
        self.waiting = True
        self.settled = False
        self._thinking = False
        self._held = ""
        self._held_ns = 0

    def feed(self, text: str, now_ns: int) -> None:
        """The next piece of the text."""
        if self.answer_ns is None:
            self._before(text, now_ns)
        elif not self.settled:
            self._after(text, now_ns)

    def end(self) -> None:
        """No more text comes: what looked like the begin of a tag was none."""
        if self.answer_ns is None and self._held and not self._thinking:
            self.answer_ns = self._held_ns
        self.settled = True

    def _before(self, text: str, now_ns: int) -> None:
        held_ns = self._held_ns if self._held else now_ns
        text, self._held = self._held + text, ""
        while True:
            if self._thinking:
                _, closed, rest = text.partition(_CLOSE)
                if not closed:
                    self._held = text[1 - len(_CLOSE) :]
                    return
                self._thinking = False
            else:
                rest = text.lstrip()
                if not rest:
                    return
                if not rest.startswith((_OPEN, _CLOSE)):
                    if not _OPEN.startswith(rest) and not _CLOSE.startswith(rest):
                        self._found(rest, held_ns)
                        return
                    self._held, self._held_ns = rest, held_ns
                    return
                self.thought = True
                self._thinking = rest.startswith(_OPEN)
                rest = rest[len(_OPEN if self._thinking else _CLOSE) :]
            text, held_ns = rest, now_ns

    def _found(self, text: str, now_ns: int) -> None:
        self.answer_ns = now_ns
        self.waiting = False
        self.settled = self.thought
        self._after(text, now_ns)

    def _after(self, text: str, now_ns: int) -> None:
        """An answer was found with no tag before it: a closing tag that comes first takes it back."""
        if self.settled:
            return
        text, self._held = self._held + text, ""
        thought, closed, rest = text.partition(_CLOSE)
        if _OPEN in thought:
            self.settled = True
        elif closed:
            self.thought = self.waiting = True
            self.answer_ns = None
            self._before(rest, now_ns)
        else:
            self._held = _begun_tag(text)
            self.waiting = bool(self._held)


def _begun_tag(text: str) -> str:
    """What stands at the end of the text and may be the begin of a tag."""
    begin = text.rfind("<", 1 - len(_CLOSE))
    tail = text[begin:] if begin >= 0 else ""
    return tail if _CLOSE.startswith(tail) or _OPEN.startswith(tail) else ""
