"""From a request to the script of its answer: what is written, how much of it, and when."""

import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from hopbudget.endpoint import gpu as gpus
from hopbudget.endpoint.breaks import BREAKS
from hopbudget.endpoint.faults import ROWS
from hopbudget.endpoint.knobs import Knobs
from hopbudget.endpoint.request import Ask, Function, Turn
from hopbudget.endpoint.script import Finish, Kind, Script, Step, Usage
from hopbudget.endpoint.text import SENTENCES, THOUGHTS, example_of, words

CHARACTERS_A_TOKEN: Final = 4
MESSAGE_TOKENS: Final = 4
"""Tokens that a message costs beside its text."""
ROLE_SHARE: Final = 0.25
"""A role-only chunk goes out after this share of the wait for the first token, as on servers that send one early."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token of an answer before it has a time."""

    kind: Kind
    text: str
    tool: str = ""


def script_for(ask: Ask, knobs: Knobs, *, seed: int, index: int, concurrency: int, cached_tokens: int) -> Script:
    """The answer to `ask` as request number `index` of a server with this seed and this many requests at once.

    A `seed` in the request takes the place of its number, so that its answer no longer depends on the others'.
    """
    gpu = gpus.GPUS[ask.model]
    rng = gpus.dice(seed, gpu.model, index if ask.seed is None else f"seed-{ask.seed}")
    prompt = tokens_through(ask)[-1] if knobs.prompt_tokens is None else knobs.prompt_tokens
    cached = min(prompt, cached_tokens if knobs.cached_tokens is None else knobs.cached_tokens)
    written, finish = _write(ask, knobs, gpu, rng)
    timed = _timed(written, knobs, gpu, rng, fresh_tokens=prompt - cached, concurrency=concurrency)
    reasoning = sum(token.kind == "reasoning" for token in written)
    script = Script(
        tuple(step for step in timed if step.kind != "usage" or ask.wants_usage),
        Usage(prompt=prompt, completion=len(written), cached=cached, reasoning=reasoning),
        finish=finish,
        reasoning_field=knobs.reasoning_field,
    )
    return hide_reasoning(script) if (knobs.reasoning or ask.reasoning) == "hidden" else script


def script_of_row(name: str, knobs: Knobs) -> Script:
    """The row of this name; of the knobs, those that say where reasoning goes apply to it."""
    script = replace((ROWS | BREAKS)[name](), reasoning_field=knobs.reasoning_field)
    return hide_reasoning(script) if knobs.reasoning == "hidden" else script


def hide_reasoning(script: Script) -> Script:
    """`script` with its reasoning kept back: the time passes and usage counts it, but no token of it is sent."""
    steps: list[Step] = []
    for step in script.steps:
        if step.kind != "reasoning":
            steps.append(step)
        elif not any(before.kind == "hidden" for before in steps):
            steps.append(Step(step.after_s, "hidden"))
    return replace(script, steps=tuple(steps))


def tokens_through(ask: Ask) -> list[int]:
    """Prompt tokens up to the end of each turn, tools first: an estimate, a simulation has no tokenizer."""
    before = sum(len(tool.name) + len(json.dumps(tool.parameters)) for tool in ask.tools) // CHARACTERS_A_TOKEN
    return list(itertools.accumulate((_turn_tokens(turn) for turn in ask.turns), initial=before))[1:]


def _turn_tokens(turn: Turn) -> int:
    return MESSAGE_TOKENS + len(turn.text) // CHARACTERS_A_TOKEN


def next_tool(ask: Ask) -> Function | None:
    """The tool that the model calls now: the one it is told to, else each on offer once, then no more."""
    tools = {tool.name: tool for tool in ask.tools}
    if ask.choice == "none":
        return None
    if ask.named is not None:
        return tools.get(ask.named)
    called = {name for turn in ask.turns for name in turn.calls}
    left = [tool for name, tool in tools.items() if name not in called]
    if not left and ask.choice == "required":
        left = list(tools.values())
    return left[0] if left else None


def _write(ask: Ask, knobs: Knobs, gpu: gpus.Gpu, rng: random.Random) -> tuple[list[Token], Finish]:
    start = rng.randrange(len(SENTENCES)) if ask.seed is None else ask.seed
    own = 0 if ask.reasoning == "none" else gpu.reasoning_tokens
    thought_tokens = own if knobs.reasoning_tokens is None else knobs.reasoning_tokens
    thought = [Token("reasoning", text) for text in itertools.islice(words(THOUGHTS, start), thought_tokens)]
    finish: Finish = "stop"
    if (tool := next_tool(ask)) is not None:
        arguments = _json(tool.parameters or {"type": "object"})
        said = [Token("tool", "", tool.name), *(Token("tool", piece) for piece in arguments)]
        finish = "tool_calls"
    elif ask.schema is not None:
        said = [Token("text", piece) for piece in _json(ask.schema)]
    else:
        asked = gpus.answer_tokens(gpu, rng) if knobs.tokens is None else knobs.tokens
        said = [Token("text", text) for text in itertools.islice(words(SENTENCES, start), asked)]
    written = thought + said
    if len(written) > ask.limit:
        return written[: ask.limit], "length"
    return written, finish


def _json(schema: dict[str, object]) -> list[str]:
    """An instance of `schema` as tokens."""
    text = json.dumps(example_of(schema), ensure_ascii=False)
    return [text[start : start + CHARACTERS_A_TOKEN] for start in range(0, len(text), CHARACTERS_A_TOKEN)]


def _timed(
    written: list[Token], knobs: Knobs, gpu: gpus.Gpu, rng: random.Random, *, fresh_tokens: int, concurrency: int
) -> Iterator[Step]:
    now_s = gpus.first_token_s(gpu, rng, fresh_tokens=fresh_tokens, concurrency=concurrency)
    gaps_s = gpus.gaps_s(gpu, rng, concurrency=concurrency)
    if knobs.ttft_s is not None:
        now_s = knobs.ttft_s
    if knobs.tpot_s is not None:
        gaps_s = itertools.repeat(knobs.tpot_s)
    yield Step(now_s * ROLE_SHARE, "role")
    for group in _grouped(written, knobs.per_chunk):
        text = "".join(token.text for token in group)
        yield Step(now_s, group[0].kind, text, len(group), tool=group[0].tool)
        now_s += sum(itertools.islice(gaps_s, len(group)))
    yield Step(now_s, "stop")
    yield Step(now_s, "usage")
    yield Step(now_s, "done")


def _grouped(written: list[Token], size: int) -> Iterator[list[Token]]:
    """Runs of one kind, at most `size` long; a tool's name stands alone."""
    for _, run in itertools.groupby(written, key=lambda token: (token.kind, token.tool)):
        tokens = list(run)
        for start in range(0, len(tokens), size):
            yield tokens[start : start + size]
