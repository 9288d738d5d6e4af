"""The demo's opening: two answers of the same words in the same three seconds, and the numbers that tell them apart."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import hopbudget as hb
from hopbudget.demo.agent import LARGE, delta_of
from hopbudget.render import base
from hopbudget.units import seconds

if TYPE_CHECKING:
    from openai import AsyncOpenAI

WORKLOAD: Final = "two-answers"
TOTAL_S: Final = 3.0
TOKENS: Final = 54
_QUESTION: Final[Any] = [{"role": "user", "content": "What makes an answer feel slow?"}]
_FRAMES_A_SECOND: Final = 20
_LINES: Final = 8
_BAR: Final = 18


@dataclass
class Listener:
    """One answer as it is heard. Its clock is for the eye; the numbers shown later are those that were recorded."""

    hop: str
    title: str
    first_token_s: float
    """The script: silence until here, and then the pace that ends at `TOTAL_S`."""
    text: str = ""
    started: float = field(default_factory=time.perf_counter)
    heard_s: float | None = None
    last_s: float = 0.0
    ended: bool = False

    def hear(self, said: str) -> None:
        """A piece of text came."""
        if said:
            self.last_s = time.perf_counter() - self.started
            self.heard_s = self.heard_s or self.last_s
            self.text += said

    @property
    def knobs(self) -> dict[str, str]:
        """Headers that script this answer at the endpoint."""
        pace_s = (TOTAL_S - self.first_token_s) / (TOKENS - 1)
        return {
            "x-hopbudget-ttft": f"{self.first_token_s}",
            "x-hopbudget-tpot": f"{pace_s:.9f}",
            "x-hopbudget-tokens": f"{TOKENS}",
        }


def listeners() -> list[Listener]:
    """The two answers."""
    return [Listener("starts-at-once", "starts at once", 0.3), Listener("starts-late", "starts late", 2.8)]


async def listen(client: "AsyncOpenAI", both: Sequence[Listener], run: str, out: Console, *, live: bool) -> None:
    """Ask for both at the same moment and show them as they come, or once they are there if the screen is not live."""
    await _warm_up(client)
    for listener in both:
        listener.started = time.perf_counter()
    if not live:
        await asyncio.gather(*(_one(client, listener, run) for listener in both))
        out.print(panels(both))
        return
    with Live(console=out, get_renderable=lambda: panels(both), refresh_per_second=_FRAMES_A_SECOND):
        await asyncio.gather(*(_one(client, listener, run) for listener in both))


async def _warm_up(client: "AsyncOpenAI") -> None:
    """A call that nobody records: the client loads half of itself at its first, which is not the endpoint's time."""
    async for _ in await client.chat.completions.create(
        model=LARGE, messages=_QUESTION, stream=True, extra_headers={"x-hopbudget-ttft": "0", "x-hopbudget-tokens": "1"}
    ):
        pass


async def _one(client: "AsyncOpenAI", listener: Listener, run: str) -> None:
    with hb.trajectory(WORKLOAD, run=run), hb.hop(listener.hop, final=True):
        stream = hb.watch(
            await client.chat.completions.create(
                model=LARGE,
                messages=_QUESTION,
                stream=True,
                stream_options={"include_usage": True},
                seed=0,
                extra_headers=listener.knobs,
            )
        )
        async for chunk in stream:
            listener.hear(delta_of(chunk))
    listener.ended = True


def panels(both: Sequence[Listener]) -> Table:
    """Both answers side by side, as far as they have come."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_row(*(_panel(listener) for listener in both))
    return grid


def _panel(listener: Listener) -> Panel:
    now_s = time.perf_counter() - listener.started
    if listener.ended:
        colour, state = base.QUIET, f"all there after {listener.last_s:.1f} s"
    elif listener.heard_s is not None:
        colour, state = base.WRITING, f"writing, {now_s:.1f} s"
    else:
        colour, state = base.FIRST_TOKEN, f"silence, {now_s:.1f} s"
    return Panel(
        Text(listener.text.strip()),
        title=Text(listener.title, style="bold"),
        subtitle=Text(state, style=colour),
        border_style=colour,
        height=_LINES + 2,
        width=(base.WIDTH - 2) // 2,
    )


def numbers(hops: Sequence[Mapping[str, Any]], both: Sequence[Listener]) -> Table:
    """What was recorded of the two streams; `hops` are rows of the store."""
    rows = base.table("", "TTFT", "TPOT", "ITL p50", "ITL p95", "E2E", "")
    rows.columns[-1].justify = "left"
    rows.padding = (0, 2, 0, 0)
    recorded = {hop["hop"]: hop for hop in hops}
    for listener in both:
        hop = recorded[listener.hop]
        gaps_s = np.asarray(hop["itl_us"], dtype=np.float64) / 1e6
        middle_s, high_s = np.quantile(gaps_s, [0.5, 0.95]) if len(gaps_s) else (np.nan, np.nan)
        wait_s, whole_s = hop["ttft_s"], hop["e2e_s"]
        rows.add_row(
            Text(listener.title, style="bold"),
            Text(seconds(wait_s), style=f"bold {base.FIRST_TOKEN}"),
            Text(seconds(hop["tpot_s"]), style=f"bold {base.WRITING}"),
            seconds(middle_s),
            seconds(high_s),
            seconds(whole_s),
            _strip(wait_s / whole_s),
        )
    return rows


def legend() -> Text:
    """What the strips of `numbers` are drawn with."""
    strip = (("░", base.FIRST_TOKEN), " silence  ", ("█", base.WRITING), f" writing; {TOKENS} tokens each")
    return Text.assemble(*strip, style=base.QUIET)


def _strip(silent: float) -> Text:
    """The answer as a strip of time: silence, then writing."""
    cells = round(silent * _BAR)
    strip = Text("░" * cells, style=base.FIRST_TOKEN)
    return strip.append("█" * (_BAR - cells), style=base.WRITING)
