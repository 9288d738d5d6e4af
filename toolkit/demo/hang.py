"""`demo --fault hang`: an endpoint that pings for ever, and one agent at it twice: as it is, and with hopbudget."""

import asyncio
import importlib
import shlex
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

import hopbudget as hb
from hopbudget.demo import stage
from hopbudget.demo.agent import LARGE
from hopbudget.demo.hang_agent import FIRST_TOKEN_S, HANGS, Agent, HeldAgent
from hopbudget.demo.hang_board import DEADLINE_S, SHOWN_S, Side, legend, panels
from hopbudget.endpoint import running_apart
from hopbudget.errors import Exit
from hopbudget.render import base
from hopbudget.store import queries
from hopbudget.store.duck import Store
from hopbudget.units import plural, seconds

if TYPE_CHECKING:
    from openai import AsyncOpenAI

WORKLOAD: Final = "hang-demo"
CLIENT_TIMEOUT_S: Final = 2.0
_FRAMES_A_SECOND: Final = 15


def run(store: Path | None, *, console: Console | None = None) -> int:
    """Play it and return the exit code; `store` and `console` are as for `demo.run`."""
    import openai  # noqa: F401  # a missing extra is said before anything else happens

    out = console or base.console(moving=True)
    live = out.is_terminal and console is None
    with stage.ending_on_signals(), stage.place(store) as path:
        hb.init(path, service="hopbudget-demo")
        _welcome(out)
        name = f"hang-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
        sides = [
            Side(f"as it is: time-out of {CLIENT_TIMEOUT_S:.0f} s"),
            Side(f"with hopbudget: first token in {FIRST_TOKEN_S:.0f} s"),
        ]
        with ExitStack() as stack, ThreadPoolExecutor() as pool:
            first, second = pool.map(lambda _: stack.enter_context(running_apart()), range(2))
            asyncio.run(_both(sides, first, second, name, out, live=live))
        stage.flushed()
        opened = Store(path)
        opened.drain()
        with opened.reading() as con:
            (row,) = queries.trajectory_rows(con, queries.Where(workload=WORKLOAD, attributes={"run": name}))
            detail = queries.trajectory(con, row["trace_id"])
        _said(out, sides, detail)
        _goodbye(out, store, detail)
    return Exit.DONE


async def _both(sides: list[Side], first: str, second: str, name: str, out: Console, *, live: bool) -> None:
    plain, held = sides
    async with (
        _client(first, plain, timeout=CLIENT_TIMEOUT_S) as theirs,
        _client(first, held) as ours,
        stage.client(second) as other,
    ):
        await asyncio.gather(*(_warm_up(client) for client in (theirs, ours, other)))
        for side in sides:
            side.started = time.perf_counter()

        async def play() -> None:
            await asyncio.gather(_stopped(Agent(plain, theirs)), _held(HeldAgent(held, ours, other), name))

        if not live:
            await play()
            out.print(panels(sides))
        else:
            with Live(console=out, get_renderable=lambda: panels(sides), refresh_per_second=_FRAMES_A_SECOND):
                await play()
    out.print(legend())


async def _stopped(agent: Agent) -> None:
    """It would wait for ever."""
    try:
        async with asyncio.timeout(SHOWN_S):
            await agent.run()
    except TimeoutError:
        agent.side.leave("stopped")


async def _held(agent: HeldAgent, name: str) -> None:
    try:
        async with hb.trajectory(WORKLOAD, run=name, deadline_s=DEADLINE_S, enforce="deadline"):
            await agent.run()
    except hb.DeadlineExceeded:
        agent.side.leave("stopped")
    else:
        agent.side.leave("came")


async def _warm_up(client: "AsyncOpenAI") -> None:
    """A call that nobody records: the client loads half of itself at its first, which is not the endpoint's time."""
    messages: Any = [{"role": "user", "content": "hello"}]
    headers = {"x-hopbudget-ttft": "0", "x-hopbudget-tokens": "1"}
    async for _ in await client.chat.completions.create(
        model=LARGE, messages=messages, stream=True, extra_headers=headers
    ):
        pass


def _client(address: str, side: Side, **options: Any) -> "AsyncOpenAI":
    """A client whose bodies the side is told of, piece by piece, as they come off the wire."""
    import openai

    async def listen(response: Any) -> None:
        response.stream = _told(response.stream, side.piece)

    http = openai.DefaultAsyncHttpxClient(trust_env=False, event_hooks={"response": [listen]})
    return stage.client(address, http_client=http, **options)


def _told(stream: Any, tell: Callable[[], None]) -> Any:
    """The body's stream, of the library that the client is made of."""
    library = importlib.import_module(type(stream).__module__.partition(".")[0])

    class Told(library.AsyncByteStream):  # type: ignore[name-defined, misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in stream:
                tell()
                yield piece

        async def aclose(self) -> None:
            await stream.aclose()

    return Told()


def _welcome(out: Console) -> None:
    out.print(Text("hopbudget demo --fault hang", style="bold"))
    words = (
        f"The same agent twice, with {DEADLINE_S:.0f} s for all of it. One call, `{HANGS}`, meets an endpoint that "
        "sends a ping every 50 ms and nothing else, for ever. The endpoints are simulations on this machine; the "
        "openai client, the sockets and the limits are the real thing."
    )
    out.print(Text(words, style=base.QUIET))
    out.print()


def _said(out: Console, sides: Sequence[Side], detail: Mapping[str, Any]) -> None:
    """What happened, from the records, and what a measurement of first chunks would have said."""
    hop = next(hop for hop in detail["hops"] if hop["hop"] == HANGS)
    out.print()
    out.print(Text(held(detail["trajectory"], hop), style="bold"))
    out.print(Text(left_alone(sides[0])))
    out.print()
    rows = base.table("", "left", "right", "", title=f"First token of `{HANGS}`")
    rows.columns[-1].justify = "left"
    rows.padding = (0, 3, 0, 0)
    chunks = [seconds(side.first_chunk_s(HANGS)) for side in sides]
    rows.add_row("by the first chunk, as usual", *chunks, Text("a ping, taken for a token", style=base.OVER))
    rows.add_row("by the first generated token", "never", seconds(hop["ttft_s"]), "as hopbudget records it")
    out.print(rows)


def held(row: Mapping[str, Any], hop: Mapping[str, Any]) -> str:
    """Which hop, which phase, how many seconds, and how it ended; `row` and `hop` are rows of the store."""
    name, ttft_s, attempt_s = hop["hop"], hop["ttft_s"], hop["attempt_ttft_s"]
    whole = f"{seconds(row['duration_s'])} of its {seconds(row['deadline_s'])}"
    if ttft_s is None or attempt_s is None or hop["attempts"] is None:
        return f"`{name}` got no first token from either endpoint; the run was {row['outcome']} after {whole}."
    return (
        f"`{name}` waited for its first token: none after {seconds(ttft_s - attempt_s)}, so the second endpoint was "
        f"asked, which sent one {seconds(attempt_s)} later. The run took {whole}."
    )


def left_alone(side: Side) -> str:
    """What became of the side that nobody held."""
    lane = side.lanes[HANGS]
    pings, waited_s = plural(lane.pieces, "ping", "pings"), side.elapsed_s - (lane.began_s or 0.0)
    return (
        f"Left alone, `{HANGS}` got {pings} in {seconds(waited_s)} and no token. The client's time-out of "
        f"{CLIENT_TIMEOUT_S:.0f} s never fires, because every ping starts it anew. Only the demo stopped it."
    )


def _goodbye(out: Console, store: Path | None, detail: Mapping[str, Any]) -> None:
    stage.title(out, "In your own agent")
    for line in (
        '@hb.trajectory("my-agent", deadline_s=5, enforce="deadline")',
        f"stream = await hb.failover(first, second, after_s={FIRST_TOKEN_S:g})",
    ):
        out.print(Text(f"  {line}", style="bold"))
    what, command = (
        "keep the spans: this run's are gone with its temporary folder",
        "demo --fault hang --store traces.duckdb",
    )
    if store is not None:
        place = "" if store == Path("traces.duckdb") else f" {shlex.quote(str(store))}"
        what, command = "the run that was held, hop by hop", f"explain{place} {detail['trajectory']['trace_id'][:12]}"
    out.print(Text(what, style=base.QUIET))
    out.print(Text(f"  {stage.program()} {command}", style="bold"), soft_wrap=True)
