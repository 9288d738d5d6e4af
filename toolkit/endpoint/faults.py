"""Streams as real servers have sent them and real clients have misread them, as scripts with known truth.

Every row is the same answer seen through one fault: a role-only chunk at 50 ms, the first token at 200 ms,
ten tokens 20 ms apart, a stop chunk 20 ms later with usage and the end marker.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from hopbudget.endpoint.script import Framing, Script, Step, Usage

ROLE_S: Final = 0.05
FIRST_S: Final = 0.2
GAP_S: Final = 0.02
LATE_DONE_S: Final = 1.1
PROMPT_TOKENS: Final = 12
TOKENS: Final = ("Ten", " tokens", ",", " twenty", " milliseconds", " apart", ",", " and", " then", " stop.")
WIDE_TOKENS: Final = ("期限", "を", "守る", "🙂", "预算", "，", "🚀", "한도", "é", "。")
ARGUMENTS: Final = ("", '{"', "query", '":', ' "', "dead", "line", " budgets", '"', "}")


def _times(count: int, first_s: float = FIRST_S) -> list[float]:
    return [round(first_s + GAP_S * index, 6) for index in range(count)]


def _answer(texts: Sequence[str] = TOKENS, *, per_step: int = 1, first_s: float = FIRST_S) -> list[Step]:
    return [Step(at, "text", text, per_step) for at, text in zip(_times(len(texts), first_s), texts, strict=True)]


def _ending(after_s: float, *, usage: bool = True) -> list[Step]:
    steps = [Step(after_s, "stop"), Step(after_s, "usage"), Step(after_s, "done")]
    return steps if usage else [step for step in steps if step.kind != "usage"]


def _stream(tokens: Sequence[Step], *, usage: bool = True) -> Script:
    end_s = round(tokens[-1].after_s + GAP_S, 6)
    return Script(
        (Step(ROLE_S, "role"), *tokens, *_ending(end_s, usage=usage)),
        Usage(
            prompt=PROMPT_TOKENS,
            completion=sum(step.tokens for step in tokens),
            reasoning=sum(step.tokens for step in tokens if step.kind == "reasoning"),
        ),
    )


def plain() -> Script:
    """A1: nothing wrong."""
    return _stream(_answer())


def pings() -> Script:
    """A2: comments before and between the tokens."""
    script = plain()
    beats = [0.01, 0.1, 0.15] + [round(at + GAP_S / 2, 6) for at in _times(len(TOKENS))]
    steps = [*script.steps, *(Step(at, "ping") for at in beats)]
    return replace(script, steps=tuple(sorted(steps, key=lambda step: step.after_s)))


def crlf() -> Script:
    """A3: lines end in CR LF."""
    return replace(plain(), framing=Framing(line_end=b"\r\n"))


def no_space() -> Script:
    """A4: `data:{...}` without a space."""
    return replace(plain(), framing=Framing(space=False))


def fragmented() -> Script:
    """A5: seven bytes a write, through the middle of CJK characters and emoji."""
    return replace(_stream(_answer(WIDE_TOKENS)), framing=Framing(fragment_bytes=7))


def error_in_band() -> Script:
    """A6: three tokens, then an error as an event under HTTP 200, and nothing more."""
    script = plain()
    error = Step(round(FIRST_S + 3 * GAP_S, 6), "error", "the simulated GPU fell over")
    return replace(script, steps=(*script.steps[:4], error))


def cut_off() -> Script:
    """A7: three tokens, then a clean close without a finish reason or an end marker."""
    script = plain()
    return replace(script, steps=script.steps[:4])


def five_a_chunk() -> Script:
    """A8: ten chunks of five tokens each; usage says fifty."""
    return _stream(_answer([text * 5 for text in TOKENS], per_step=5))


def five_a_chunk_no_usage() -> Script:
    """A9: as A8, and usage is never stated."""
    return _stream(_answer([text * 5 for text in TOKENS], per_step=5), usage=False)


def reasoning_first() -> Script:
    """A10: six tokens of reasoning, then four of the answer, from 320 ms."""
    thought = [Step(at, "reasoning", text, 1) for at, text in zip(_times(6), TOKENS[:6], strict=True)]
    return _stream([*thought, *_answer(TOKENS[6:], first_s=_times(7)[-1])])


def tool_only() -> Script:
    """A11: one tool call and no text at all."""
    pieces = zip(_times(len(ARGUMENTS)), ARGUMENTS, strict=True)
    steps = [Step(at, "tool", text, 1, tool="" if index else "search") for index, (at, text) in enumerate(pieces)]
    return replace(_stream(steps), finish="tool_calls")


def one_token() -> Script:
    """A12: one token; there is no time between tokens to speak of."""
    return _stream(_answer(TOKENS[-1:]))


def late_end() -> Script:
    """A13: the end marker comes 1.1 s after stop and usage."""
    script = plain()
    done = script.steps[-1]
    return replace(script, steps=(*script.steps[:-1], replace(done, after_s=done.after_s + LATE_DONE_S)))


def slow_start() -> Script:
    """B: a role chunk at 0.10 s, an empty one at 0.20 s, the first content at 0.60 s."""
    tokens = _answer(first_s=0.6)
    script = _stream(tokens)
    empty = Step(0.2, "text")
    return replace(script, steps=(Step(0.1, "role"), empty, *script.steps[1:]))


ROWS: Final[dict[str, Callable[[], Script]]] = {
    "A1": plain,
    "A2": pings,
    "A3": crlf,
    "A4": no_space,
    "A5": fragmented,
    "A6": error_in_band,
    "A7": cut_off,
    "A8": five_a_chunk,
    "A9": five_a_chunk_no_usage,
    "A10": reasoning_first,
    "A11": tool_only,
    "A12": one_token,
    "A13": late_end,
    "B": slow_start,
}
"""Every fault by the name that the header `x-hopbudget-row` takes."""
