"""What users' type checkers must see: a decorated callable keeps its parameters and what it returns.

Checked by mypy in strict mode, not run.
"""

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar, assert_type, overload

import hopbudget as hb

T = TypeVar("T")


@hb.trajectory("agent", workload="chat", run="r1", session="s1", attributes={"tier": "gold", "tries": 3})
async def agent(question: str, *, limit: int = 3) -> str:
    return question * limit


@hb.hop("plan", model="m")
def plan(question: str, /, *documents: bytes, **options: bool) -> list[str]:
    return [question]


@hb.hop("answer", final=True)
async def answer(question: str) -> AsyncIterator[str]:
    yield question


@hb.work("lines")
def lines(text: str) -> Iterator[str]:
    yield from text.splitlines()


@asynccontextmanager
@hb.work("session")
async def session(name: str) -> AsyncIterator[int]:
    yield len(name)


@hb.work("same")
def same(thing: T) -> T:
    return thing


@overload
def either(thing: int) -> int: ...
@overload
def either(thing: str) -> str: ...
@hb.work("either")
def either(thing: int | str) -> int | str:
    return thing


class Tool:
    @hb.work("method")
    def method(self, a: int) -> "Tool":
        return self

    @classmethod
    @hb.work("make")
    def make(cls) -> "Tool":
        return cls()

    @hb.work("static")
    @staticmethod
    def static(a: int) -> int:
        return a


class Stream:
    """A client's stream."""

    def __iter__(self) -> Iterator[bytes]:
        yield b""

    def close(self) -> None: ...


def functions() -> None:
    assert_type(plan("q", b"d", quick=True), list[str])
    call: Coroutine[Any, Any, str] = agent("q", limit=2)
    call.close()
    assert_type(answer("q"), AsyncIterator[str])
    assert_type(lines("a"), Iterator[str])
    opened: AbstractAsyncContextManager[int] = session("s")
    assert opened
    assert_type(same(3), int)
    assert_type(either(3), int)
    assert_type(either("a"), str)
    partial: Callable[[], int] = hb.work("partial")(functools.partial(Tool.static, 3))
    assert_type(partial(), int)


def methods() -> None:
    assert_type(Tool().method(1), Tool)
    assert_type(Tool.make(), Tool)
    assert_type(Tool.static(1), int)


def blocks() -> None:
    with hb.trajectory("agent"), hb.hop("answer"), hb.pause("approval"):
        assert_type(hb.watch(Stream()), Stream)
        assert_type(hb.watch(iter(["a"])), Iterator[str])


async def async_blocks() -> None:
    async with hb.hop("answer"):
        assert_type([text async for text in hb.watch(answer("q"))], list[str])


def mistakes() -> None:
    """Each of these must be an error: strict mode reports an ignore that is not needed."""
    plan()  # type: ignore[call-arg]
    plan("q", "not bytes")  # type: ignore[arg-type]
    lines(3)  # type: ignore[arg-type]
    hb.hop("answer", finale=True)  # type: ignore[call-arg]
    hb.trajectory("agent", attributes={"when": object()})  # type: ignore[dict-item]
    text: int = same("a")  # type: ignore[assignment]
    assert text


async def deadlines(client: Tool) -> None:
    assert_type(hb.remaining_s(), float)
    assert_type(hb.chance(steps_left=2), float | None)
    assert_type(hb.steps_left(at=0.9), int | None)
    assert_type(hb.max_tokens("answer"), int | None)
    assert_type(hb.remaining_prompt(), str)
    assert_type(hb.carry(plan)("why", b"document", fast=True), list[str])
    assert_type(await hb.all_of(agent("a"), agent("b", limit=2)), list[str])
    assert_type(await hb.first_of(agent("a"), agent("b")), str)
    assert_type(hb.propagating(client), Tool)
    hb.on_pressure(0.5, lambda: None)
    hb.hint(steps_left=2)
