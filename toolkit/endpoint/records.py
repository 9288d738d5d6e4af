"""What the server truly sent, by its own clock: the other side of every measurement that a client makes."""

from collections import OrderedDict, deque
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, Final

from hopbudget.endpoint.request import Ask
from hopbudget.endpoint.script import Step

KEPT_ANSWERS: Final = 1000
KEPT_PREFIXES: Final = 4096


@dataclass(slots=True)
class Sent:
    """One answer as it went out. Times count from the request's arrival; None is what never came."""

    id: str
    api: str
    model: str
    row: str | None
    key: str | None
    streamed: bool
    arrived_at: float
    """When the request was there, in seconds since 1970."""
    traceparent: str | None
    body_sha256: str
    """Of the request's body: two clients that send the same bytes have the same."""
    status: int | None = None
    first_token_s: float | None = None
    first_answer_s: float | None = None
    last_token_s: float | None = None
    done_s: float | None = None
    tokens: int = 0
    chunk_s: list[float] = field(default_factory=list)
    """When each chunk that carries tokens was written."""
    client_gone: bool = False

    def wrote(self, step: Step, after_s: float) -> None:
        """Note that `step` is on the wire."""
        if step.kind == "done":
            self.done_s = after_s
        if step.tokens == 0:
            return
        if self.first_token_s is None:
            self.first_token_s = after_s
        if self.first_answer_s is None and step.kind == "text":
            self.first_answer_s = after_s
        self.last_token_s = after_s
        self.tokens += step.tokens
        self.chunk_s.append(after_s)

    def as_json(self) -> dict[str, Any]:
        """The record as an object."""
        return asdict(self)


class Records:
    """The last answers, newest last."""

    def __init__(self, kept: int = KEPT_ANSWERS) -> None:
        self._answers: deque[Sent] = deque(maxlen=kept)

    def add(self, sent: Sent) -> None:
        """Keep `sent`, which may still change; the oldest falls out."""
        self._answers.append(sent)

    def all(self) -> list[Sent]:
        """Every answer kept."""
        return list(self._answers)

    def find(self, answer_id: str) -> Sent | None:
        """The answer with this id, if it is still kept."""
        return next((sent for sent in reversed(self._answers) if sent.id == answer_id), None)


class PrefixCache:
    """Which message prefixes have been read before, so that usage can state cached tokens."""

    def __init__(self, kept: int = KEPT_PREFIXES) -> None:
        self._tokens: OrderedDict[bytes, int] = OrderedDict()
        self._kept = kept

    def look_up(self, ask: Ask, tokens_of: list[int]) -> int:
        """Tokens of the longest prefix of whole messages seen before; the request's prefixes are then kept.

        `tokens_of` is the running sum of tokens through each message.
        """
        digest = blake2b(ask.model.encode(), digest_size=16)
        cached = 0
        for turn, tokens in zip(ask.turns, tokens_of, strict=True):
            digest.update(repr(turn).encode())
            key = digest.digest()
            if key in self._tokens:
                cached = tokens
            self._tokens[key] = tokens
            self._tokens.move_to_end(key)
        while len(self._tokens) > self._kept:
            self._tokens.popitem(last=False)
        return cached


class Turns:
    """How many requests came with each key, so that a fault can befall the first few and spare the rest."""

    def __init__(self, kept: int = KEPT_PREFIXES) -> None:
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._kept = kept

    def next(self, key: str | None) -> int:
        """The number of this request among those of its key, from 0; without a key it is the first."""
        if key is None:
            return 0
        number = self._counts.pop(key, 0)
        self._counts[key] = number + 1
        while len(self._counts) > self._kept:
            self._counts.popitem(last=False)
        return number
