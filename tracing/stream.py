"""The clock of one stream: fed with chunks and when they were asked for and came, it knows TTFT, TTFA, TPOT, gaps, N.

A pure state machine: it reads no clock and keeps no chunk. Times are monotonic nanoseconds.
"""

from collections.abc import Callable
from io import StringIO
from operator import sub
from typing import Any, Final

from hopbudget.tracing.gaps import BLOCK, GapRecorder
from hopbudget.tracing.outcomes import CUT_OFF
from hopbudget.tracing.readers import CHAT, format_of
from hopbudget.tracing.reading import Format, Reading, Usage
from hopbudget.tracing.sse import EventParser, looks_like_events
from hopbudget.tracing.think import AnswerFinder
from hopbudget.tracing.vocabulary import Outcome

TEXT_LIMIT = 8192
"""Characters kept for the user's tokenizer before a part of them is counted."""
READY_NS = 200_000
"""A chunk that comes within this time of being asked for was there already: nothing generates 5,000 chunks a second."""
READY_US = READY_NS // 1000
READY_PART = 50
"""So is one that came within this part of the gap before it: else it would have come just then by chance."""
ENDLESS_NS = 1 << 62
NOTES: Final = 2 * BLOCK
"""So many times are noted before they are taken in."""
READS: Final = 4 * NOTES
"""So many times of reads are kept where no chunk comes of them."""


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
        "_chat",
        "_coalesced",
        "_counter",
        "_events",
        "_fixed",
        "_format",
        "_gaps",
        "_held",
        "_last_ns",
        "_pulled_ns",
        "_quick",
        "_quiet_at",
        "_quiet_ns",
        "_read_ns",
        "_reads_text",
        "_shared",
        "_stalled_ns",
        "_thought_at",
        "_waited_ns",
        "bare_chunks",
        "began_ns",
        "complete",
        "error",
        "finish",
        "first_ns",
        "model",
        "notes",
        "patience_ns",
        "plain",
        "reads",
        "reasoned",
        "summarised",
        "truncated",
        "usage",
    )

    def __init__(
        self, tokenizer: Callable[[str], int] | None = None, *, format: Format | None = None, fixed: bool = False
    ) -> None:
        """`format`: what the chunks are thought to be in; `fixed`: what they are in, whatever they look like."""
        self._format = format
        self._fixed = fixed
        self._events: EventParser | None = None
        self._quick: Callable[[object], str | None] = _read_whole
        self._chat = False
        """Whether the chunks are objects of chat completions, and a token came."""
        self._shared = False
        self.plain = False
        """Whether, besides, of a chunk that has nothing but a text only the times matter."""
        self.notes: list[int] = []
        """Of such chunks, when each was asked for and when it came, until they are taken in. A loop over many chunks
        may add to it itself, which is quicker, and calls `take_in` at `NOTES` of them."""
        self.reads: list[int] | None = None
        """When each read from the transport began and ended, until it is taken in; None where nobody notes that."""
        self._read_ns: int | None = None
        """How long reads took since the last token; None where there was none."""
        self._answer = AnswerFinder()
        self._counter = TextCounter(tokenizer) if tokenizer else None
        self._reads_text = True
        self.began_ns: int | None = None
        self.first_ns: int | None = None
        self._last_ns = 0
        self._pulled_ns: int | None = None
        self._quiet_ns = 0
        self._quiet_at = 0
        self._thought_at = 0
        self._waited_ns = 0
        self.patience_ns = ENDLESS_NS
        """How long a token after the first may be waited for."""
        self._stalled_ns: int | None = None
        self._coalesced = 0
        self._held = 0
        self.bare_chunks = 0
        self._gaps = GapRecorder()
        self.reasoned = False
        self.summarised = False
        self.complete = False
        self.truncated = False
        self.finish: str | None = None
        self.usage: Usage | None = None
        self.model: str | None = None
        self.error: str | None = None

    @property
    def pulled_ns(self) -> int | None:
        """When the last chunk came, tokens in it or not; None before the first."""
        # The quick way notes the time once, as that of the last token.
        return None if self._pulled_ns is None else max(self._pulled_ns, self.last_ns)

    @pulled_ns.setter
    def pulled_ns(self, now_ns: int) -> None:
        self._pulled_ns = now_ns

    @property
    def chunks(self) -> int:
        """Chunks with tokens so far."""
        return 0 if self.first_ns is None else 1 + self._gaps.taken + len(self.notes) // 2

    @property
    def last_ns(self) -> int:
        """When the last chunk with tokens came; 0 before the first."""
        return self.notes[-1] if self.notes else self._last_ns

    @property
    def waited_ns(self) -> int:
        """How long the consumer waited for chunks after the first."""
        self.take_in()
        return self._waited_ns

    @property
    def stalled_ns(self) -> int | None:
        """When a token had first been waited for as long as `patience_ns`; None if none was."""
        self.take_in()
        return self._stalled_ns

    @property
    def coalesced(self) -> int:
        """Gaps of chunks that came in one read: nothing was read between them, or, where that is not known or the
        second lay ready too, they are under `READY_NS`."""
        self.take_in()
        return self._coalesced

    @property
    def held(self) -> int:
        """Other gaps whose chunk was there when asked for: reading it took under `READY_NS`, or next to nothing of the
        gap. They are the consumer's time, and bound the endpoint's."""
        self.take_in()
        return self._held

    @property
    def gaps(self) -> GapRecorder:
        """The gaps between chunks with tokens."""
        self.take_in()
        return self._gaps

    def pulled(self, chunk: Any, asked_ns: int, now_ns: int) -> None:
        """A chunk came from the transport; its consumer had asked for it at `asked_ns`."""
        # The way of nearly every chunk. Without a tokenizer what a chat chunk has beside a text is not looked at, but
        # for an end and usage.
        text: str | None = None
        if self._chat:
            try:
                own = chunk.__dict__
                (choice,) = own["choices"]
                said = choice.__dict__
                if own["usage"] is None and said["finish_reason"] is None:
                    text = said["delta"].content
            except (AttributeError, KeyError, TypeError, ValueError):
                pass
        else:
            text = self._quick(chunk)
        if not text or type(text) is not str:
            self._pulled(chunk, asked_ns, now_ns)
            return
        if not self._reads_text and "<" not in text:
            notes = self.notes
            notes.append(asked_ns)
            notes.append(now_ns)
            if len(notes) >= NOTES:
                self.take_in()
            return
        waited_ns = now_ns - asked_ns
        self._waited_ns += waited_ns
        if self._quiet_ns:
            waited_ns += self._quiet_until_now()
        self._token(asked_ns, now_ns)
        if waited_ns > self.patience_ns:
            self._waited_long(waited_ns, now_ns)
        self._text(text, text, now_ns)

    def take_in(self) -> None:
        """Work on the times that were only noted so far."""
        notes = self.notes
        if not notes:
            return
        if len(notes) % 2:
            notes.pop()  # an interrupt came between the two times
        asked, came = notes[::2], notes[1::2]
        notes.clear()
        if not came:
            return
        if self._quiet_ns:
            waited_ns = self._quiet_until_now() + came[0] - asked[0]
            if waited_ns > self.patience_ns:
                self._waited_long(waited_ns, came[0])
        gaps_us = [gap_ns // 1000 for gap_ns in map(sub, came, [self._last_ns, *came])]
        self._last_ns = came[-1]
        self._waited_ns += sum(came) - sum(asked)
        if max(gaps_us) < READY_US and self.reads is None:
            self._coalesced += len(gaps_us)
        else:
            for gap_us, asked_ns, now_ns in zip(gaps_us, asked, came, strict=True):
                self._tell_apart(gap_us, asked_ns, now_ns)
                if now_ns - asked_ns > self.patience_ns:
                    self._waited_long(now_ns - asked_ns, now_ns)
        self._gaps.add_all(gaps_us)

    def was_read(self, began_ns: int, ended_ns: int) -> None:
        """The transport was read. Never raises."""
        reads = self.reads
        if reads is None:
            return
        reads += (began_ns, ended_ns)
        if len(reads) >= READS:
            self.take_in()
            self._take_reads(ended_ns)

    def share(self) -> None:
        """Somebody else follows the stream too: from now on every chunk comes by `pulled`, and none by a note."""
        self._shared = True
        self._chat = self.plain = False

    def _pulled(self, chunk: object, asked_ns: int, now_ns: int) -> None:
        self.take_in()
        if self.reads:
            self._take_reads(now_ns)
        if self.pulled_ns is None:
            self.began_ns = now_ns
        else:
            self._waited_ns += now_ns - asked_ns
        self.pulled_ns = now_ns
        before = self.chunks
        quiet_ns = self.quiet_ns + now_ns - asked_ns
        if before and quiet_ns > self.patience_ns:
            self._waited_long(quiet_ns, now_ns)
        if self._events is None and self._quick is _read_whole and self._on_the_wire(chunk):
            self._events = EventParser()
        if self._events is None:
            self._read(chunk, asked_ns, now_ns)
        else:
            self._read_events(self._events.feed(chunk), asked_ns, now_ns)
        if self.chunks == before:
            self._quiet_ns, self._quiet_at = quiet_ns, before

    def _quiet_until_now(self) -> int:
        """As `quiet_ns`, just before a token is counted, which ends it."""
        quiet_ns, self._quiet_ns = self.quiet_ns, 0
        return quiet_ns

    def _waited_long(self, waited_ns: int, now_ns: int) -> None:
        if not self.complete and self._stalled_ns is None:
            self._stalled_ns = now_ns - waited_ns + self.patience_ns

    def _on_the_wire(self, chunk: object) -> bool:
        """Whether the chunks are bytes or lines of an event stream, whose events are what is to be read."""
        by_value = self._fixed and self._format is not None and self._format.by_value
        return not by_value and looks_like_events(chunk)

    def _read_events(self, events: list[Any], asked_ns: int, now_ns: int) -> None:
        for event in events:
            self._read(event, asked_ns, now_ns)
            self._quick, self._chat, self.plain = _read_whole, False, False  # the next piece is bytes again
            asked_ns = now_ns  # what else came in the same piece was there already

    def _read(self, chunk: object, asked_ns: int, now_ns: int) -> None:
        if self._format is None or self._quick is _read_whole:
            if not self._fixed:
                self._format = format_of(chunk) or self._format
            if self._format is None:
                return
        self._take(self._format.read(chunk), asked_ns, now_ns)
        if self.chunks:
            # Up to the first token chunks are read whole, for the model's name.
            self._quick = self._format.quick
            self._chat = (
                not self._shared and self._format is CHAT and self._counter is None and hasattr(chunk, "__dict__")
            )
            self.plain = self._chat and not self._reads_text

    def _take(self, reading: Reading, asked_ns: int, now_ns: int) -> None:
        if reading.generated:
            self._token(asked_ns, now_ns)
            if reading.reasoning:
                self.reasoned = True
                self._thought_at = self.chunks
            self.summarised = self.summarised or reading.summary
            self._text(reading.text, reading.answer, now_ns)
        else:
            self.bare_chunks += 1
        self.finish = reading.finish or self.finish
        self.complete = self.complete or reading.ended
        self.truncated = self.truncated or reading.truncated
        if reading.usage is not None:
            self.usage = reading.usage if self.usage is None else self.usage.then(reading.usage)
        self.model = self.model or reading.model
        self.error = self.error or reading.error

    def _text(self, text: str, answer: str, now_ns: int) -> None:
        if answer:
            self._answer.feed(answer, now_ns)
        if self._counter is not None:
            self._counter.feed(text)
        self._reads_text = self._answer.waiting or self._counter is not None
        self.plain = self._chat and not self._reads_text

    def _token(self, asked_ns: int, now_ns: int) -> None:
        if self.first_ns is None:
            self.first_ns = now_ns
            self._take_reads(now_ns)
            self._read_ns = None
        else:
            self.take_in()
            gap_us = (now_ns - self._last_ns) // 1000
            self._gaps.add(gap_us)
            self._tell_apart(gap_us, asked_ns, now_ns)
        self._last_ns = now_ns

    def _tell_apart(self, gap_us: int, asked_ns: int, now_ns: int) -> None:
        """Count a gap whose chunk was there already."""
        read_ns: int | None = now_ns - asked_ns
        if self.reads is not None:
            self._take_reads(now_ns)
            read_ns, self._read_ns = self._read_ns, None
        if read_ns is None or gap_us < READY_US:
            self._coalesced += 1
        elif read_ns < max(READY_NS, 1000 * gap_us // READY_PART):
            self._held += 1

    def _take_reads(self, now_ns: int) -> None:
        """Add up the reads so far. None of them is kept."""
        reads = self.reads or []
        done = 0
        for began_ns, ended_ns in zip(reads[::2], reads[1::2], strict=True):
            if ended_ns > now_ns:
                break
            self._read_ns = (self._read_ns or 0) + ended_ns - began_ns
            done += 2
        del reads[:done]

    def finished(self) -> None:
        """No more chunks come."""
        if self._events is not None and self.pulled_ns is not None:
            self._read_events(self._events.end(), self.pulled_ns, self.pulled_ns)
        self._answer.end()

    def cut_short(self, now_ns: int) -> None:
        """A stall, time-out or cancel ended the wait for the next chunk: the open gap counts, right-censored."""
        if self.first_ns is not None:
            self.gaps.leave_open((now_ns - self.last_ns) // 1000)

    @property
    def quiet_ns(self) -> int:
        """How long was waited for chunks without tokens since the last token, or since the stream was opened."""
        return self._quiet_ns if self._quiet_at == self.chunks else 0

    @property
    def thinking(self) -> bool:
        """Whether the last token was of the model's reasoning."""
        inline = self._answer.thought and self.answer_ns is None
        return self.chunks > 0 and (inline or self._thought_at == self.chunks)

    @property
    def answer_ns(self) -> int | None:
        """When the first answer character came, as far as the text so far tells."""
        return self._answer.answer_ns

    @property
    def consumer_ns(self) -> int:
        """The consumer's own time between the first chunk and the last: from each that it got to its next pull."""
        if self.pulled_ns is None or self.began_ns is None:
            return 0
        return self.pulled_ns - self.began_ns - self.waited_ns

    @property
    def over(self) -> bool:
        """Whether the stream, read as bytes, has come to its last event."""
        return self._events is not None and (self._events.done or self.complete)

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
        if end_mark and not self.complete and (whole or self.bare_chunks):
            return "failed", CUT_OFF
        return "ok", None

    def tokens(self) -> tuple[int | None, str | None]:
        """N, the output tokens that streamed, and where it is from: `usage`, `tokenizer` or `chunks`."""
        if not self.chunks:
            return None, None
        stated = tokens_from_usage(
            self.usage, reasoned=self.reasoned or self._answer.thought, summarised=self.summarised
        )
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


def _read_whole(chunk: object) -> None:
    """Stands for a format's `quick` where a chunk has to be read whole."""


def tokens_from_usage(usage: Usage | None, *, reasoned: bool, summarised: bool = False) -> int | None:
    """Output tokens that streamed, by the provider's own count; hidden reasoning, which never streamed, is taken off.

    None if nothing usable is stated, if nothing is left, or if a summary of the reasoning streamed, which no provider
    counts.
    """
    if usage is None or not usage.output or (summarised and usage.reasoning):
        return None
    hidden = 0 if reasoned else usage.reasoning or 0
    return usage.output - hidden if usage.output > hidden else None
