"""The clock of one stream: fed with chunks and the times they were pulled, it knows TTFT, TTFA, TPOT, gaps and N.

A pure state machine: it reads no clock and keeps no chunk. Times are monotonic nanoseconds.
"""

from collections.abc import Callable
from io import StringIO

from hopbudget.tracing.gaps import GapRecorder
from hopbudget.tracing.outcomes import CUT_OFF
from hopbudget.tracing.readers import Format, Reading, Usage, format_of
from hopbudget.tracing.think import AnswerFinder
from hopbudget.tracing.vocabulary import Outcome

TEXT_LIMIT = 8192
"""Characters kept for the user's tokenizer before a part of them is counted."""


class TextCounter:
    """Counts the tokens of a running text with the user's tokenizer, in bounded memory.

    Chunks can't be counted one by one, because tokens straddle them. Past `TEXT_LIMIT` characters the text is counted
    up to its last white space, where tokenizers don't merge, and let go.
    """

    __slots__ = ("_count", "_size", "_text", "_tokenizer")

    def __init__(self, tokenizer: Callable[[str], int]) -> None:
        self._tokenizer = tokenizer
        self._text = StringIO()
        self._size = 0
        self._count = 0

    def feed(self, text: str) -> None:
        """The next piece of generated text."""
        self._text.write(text)
        self._size += len(text)
        if self._size > TEXT_LIMIT:
            whole = self._text.getvalue()
            cut = max(whole.rfind(" "), whole.rfind("\n"))
            cut = cut if cut > 0 else len(whole)
            self._count += int(self._tokenizer(whole[:cut]))
            self._text = StringIO()
            self._text.write(whole[cut:])
            self._size = len(whole) - cut

    def total(self) -> int:
        """Tokens of all text fed."""
        rest = self._text.getvalue()
        return self._count + (int(self._tokenizer(rest)) if rest else 0)


class StreamClock:
    """What is known of one stream so far."""

    __slots__ = (
        "_answer",
        "_counter",
        "_format",
        "_quick",
        "answer_ns",
        "bare_chunks",
        "chunks",
        "error",
        "finish",
        "first_ns",
        "gaps",
        "last_ns",
        "model",
        "pulled_ns",
        "reasoned",
        "truncated",
        "usage",
    )

    def __init__(self, tokenizer: Callable[[str], int] | None = None, *, format: Format | None = None) -> None:
        self._format = format
        self._quick: Callable[[object], str | None] | None = None
        self._answer: AnswerFinder | None = AnswerFinder()
        self._counter = TextCounter(tokenizer) if tokenizer else None
        self.first_ns: int | None = None
        self.last_ns = 0
        self.answer_ns: int | None = None
        self.pulled_ns: int | None = None
        self.chunks = 0
        self.bare_chunks = 0
        self.gaps = GapRecorder()
        self.reasoned = False
        self.truncated = False
        self.finish: str | None = None
        self.usage: Usage | None = None
        self.model: str | None = None
        self.error: str | None = None

    def pulled(self, chunk: object, now_ns: int) -> None:
        """A chunk came from the transport."""
        self.pulled_ns = now_ns
        if self._quick is not None:
            text = self._quick(chunk)
            if text is not None:
                # The way of nearly every chunk: `_token`, written out.
                if self.first_ns is None:
                    self.first_ns = now_ns
                else:
                    self.gaps.add((now_ns - self.last_ns) // 1000)
                self.last_ns = now_ns
                self.chunks += 1
                if self._answer is not None:
                    self._look_for_answer(text, now_ns)
                if self._counter is not None:
                    self._counter.feed(text)
                return
        if self._format is None or self._quick is None:
            self._format = format_of(chunk) or self._format
            if self._format is None:
                return
            # The first chunk is always read whole, for the model's name.
            self._quick = self._format.quick
        self._take(self._format.read(chunk), now_ns)

    def _take(self, reading: Reading, now_ns: int) -> None:
        if reading.generated:
            self._token(now_ns)
            self.reasoned = self.reasoned or reading.reasoning
            if reading.answer and self._answer is not None:
                self._look_for_answer(reading.answer, now_ns)
            if self._counter is not None:
                self._counter.feed(reading.text)
        else:
            self.bare_chunks += 1
        if reading.finish is not None:
            self.finish = reading.finish
            self.truncated = self.truncated or reading.finish == "length"
        if reading.usage is not None:
            self.usage = reading.usage
        self.model = self.model or reading.model
        self.error = self.error or reading.error

    def _token(self, now_ns: int) -> None:
        if self.first_ns is None:
            self.first_ns = now_ns
        else:
            self.gaps.add((now_ns - self.last_ns) // 1000)
        self.last_ns = now_ns
        self.chunks += 1

    def _look_for_answer(self, text: str, now_ns: int) -> None:
        finder = self._answer
        if finder is not None:
            self.answer_ns = finder.feed(text, now_ns)
            self.reasoned = self.reasoned or finder.thought
            if self.answer_ns is not None:
                self._answer = None

    def finished(self) -> None:
        """No more chunks come."""
        if self._answer is not None:
            self.answer_ns = self._answer.end()
            self._answer = None

    def cut_short(self, now_ns: int) -> None:
        """A stall, time-out or cancel ended the wait for the next chunk: the open gap counts, right-censored."""
        if self.first_ns is not None:
            self.gaps.leave_open((now_ns - self.last_ns) // 1000)

    @property
    def known(self) -> bool:
        """Whether the chunks were in a format we read."""
        return self._format is not None

    def clean_end(self, *, whole: bool = True) -> tuple[Outcome, str | None]:
        """Outcome and `error.type` of a stream that ended without an exception.

        `whole` is False where the chunks came through the user's own code, which may keep some to itself: then a
        missing end mark is believed only if other chunks without tokens did come through.
        """
        if self.error is not None:
            return "failed", self.error
        if self.truncated:
            return "truncated", None
        end_mark = self._format is not None and self._format.end_mark
        if end_mark and self.finish is None and (whole or self.bare_chunks):
            return "failed", CUT_OFF
        return "ok", None

    def tokens(self) -> tuple[int | None, str | None]:
        """N, the output tokens that streamed, and where it is from: `usage`, `tokenizer` or `chunks`."""
        if not self.chunks:
            return None, None
        stated = tokens_from_usage(self.usage, reasoned=self.reasoned)
        if stated:
            return stated, "usage"
        if self._counter is not None and (counted := self._counter.total()) > 0:
            return counted, "tokenizer"
        if self.usage is not None and self.usage.output:
            # The provider says more was generated than streamed, but not how much streamed.
            return None, None
        return self.chunks, "chunks"

    def tpot_ns(self, tokens: int | None) -> float | None:
        """(last token - first) / (N - 1); None for one token, unknown N, or tokens that all came in one chunk."""
        if self.first_ns is None or tokens is None or tokens < 2 or self.chunks < 2:
            return None
        return (self.last_ns - self.first_ns) / (tokens - 1)


def tokens_from_usage(usage: Usage | None, *, reasoned: bool) -> int | None:
    """Output tokens that streamed, by the provider's own count; hidden reasoning, which never streamed, is taken off.

    None if nothing usable is stated, or if nothing is left.
    """
    if usage is None or not usage.output:
        return None
    hidden = 0 if reasoned else usage.reasoning or 0
    return usage.output - hidden if usage.output > hidden else None
