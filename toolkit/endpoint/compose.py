"""From a request to the script of its answer: what is written, how much of it, and when."""

import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

from hopbudget.endpoint import gpu as gpus
from hopbudget.endpoint.faults import ROWS
from hopbudget.endpoint.request import ChatRequest, Function, Knobs, Message
from hopbudget.endpoint.script import Finish, Kind, ReasoningField, Script, Step, Usage
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


def script_for(
    chat: ChatRequest, knobs: Knobs, *, seed: int, index: int, concurrency: int, cached_tokens: int
) -> Script:
    """The answer to `chat` as request number `index` of a server with this seed and this many requests at once.

    A `seed` in the request takes the place of its number, so that its answer no longer depends on the others'.
    """
    if knobs.row is not None:
        return ROWS[knobs.row]()
    gpu = gpus.GPUS[chat.model]
    rng = gpus.dice(seed, gpu.model, index if chat.seed is None else f"seed-{chat.seed}")
    prompt = tokens_through(chat)[-1] if knobs.prompt_tokens is None else knobs.prompt_tokens
    cached = min(prompt, cached_tokens if knobs.cached_tokens is None else knobs.cached_tokens)
    written, finish = _write(chat, knobs, gpu, rng)
    timed = _timed(written, knobs, gpu, rng, fresh_tokens=prompt - cached, concurrency=concurrency)
    steps = [step for step in timed if step.kind != "usage" or chat.wants_usage]
    reasoning = sum(token.kind == "reasoning" for token in written)
    return Script(
        tuple(steps),
        Usage(prompt=prompt, completion=len(written), cached=cached, reasoning=reasoning),
        finish=finish,
        reasoning_field=cast("ReasoningField", knobs.reasoning_field),
    )


def tokens_through(chat: ChatRequest) -> list[int]:
    """Prompt tokens up to the end of each message, tools first: an estimate, a simulation has no tokenizer."""
    tools = [tool.function for tool in chat.tools or []]
    before = sum(len(tool.name) + len(json.dumps(tool.parameters)) for tool in tools) // CHARACTERS_A_TOKEN
    return list(itertools.accumulate((_message_tokens(message) for message in chat.messages), initial=before))[1:]


def _message_tokens(message: Message) -> int:
    content = message.content or ""
    if not isinstance(content, str):
        content = "".join(str(part.get("text", "")) for part in content)
    calls = json.dumps(message.tool_calls) if message.tool_calls else ""
    return MESSAGE_TOKENS + (len(content) + len(calls)) // CHARACTERS_A_TOKEN


def next_tool(chat: ChatRequest) -> Function | None:
    """The tool that the model calls now: the one it is told to, else each on offer once, then no more."""
    tools = {tool.function.name: tool.function for tool in chat.tools or []}
    if chat.tool_choice == "none" or not tools:
        return None
    if isinstance(chat.tool_choice, dict):
        wanted = chat.tool_choice.get("function")
        return tools.get(wanted.get("name", "")) if isinstance(wanted, dict) else None
    called = {
        call.get("function", {}).get("name")
        for message in chat.messages
        for call in message.tool_calls or []
        if isinstance(call.get("function"), dict)
    }
    left = [function for name, function in tools.items() if name not in called]
    if not left and chat.tool_choice == "required":
        left = list(tools.values())
    return left[0] if left else None


def _write(chat: ChatRequest, knobs: Knobs, gpu: gpus.Gpu, rng: random.Random) -> tuple[list[Token], Finish]:
    start = rng.randrange(len(SENTENCES)) if chat.seed is None else chat.seed
    thought_tokens = gpu.reasoning_tokens if knobs.reasoning_tokens is None else knobs.reasoning_tokens
    thought = [Token("reasoning", text) for text in itertools.islice(words(THOUGHTS, start), thought_tokens)]
    finish: Finish = "stop"
    if (tool := next_tool(chat)) is not None:
        said = _call(tool)
        finish = "tool_calls"
    else:
        asked = gpus.answer_tokens(gpu, rng) if knobs.tokens is None else knobs.tokens
        said = [Token("text", text) for text in itertools.islice(words(SENTENCES, start), asked)]
    written = thought + said
    if len(written) > chat.limit:
        return written[: chat.limit], "length"
    return written, finish


def _call(tool: Function) -> list[Token]:
    arguments = json.dumps(example_of(tool.parameters or {"type": "object"}), ensure_ascii=False)
    size = CHARACTERS_A_TOKEN
    pieces = [arguments[start : start + size] for start in range(0, len(arguments), size)]
    return [Token("tool", "", tool.name), *(Token("tool", piece) for piece in pieces)]


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
