"""The small agent of `demo --fault hang`, as it is and with hopbudget."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import hopbudget as hb
from hopbudget.demo.agent import LARGE, delta_of
from hopbudget.demo.hang_board import Side

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletionChunk

FIRST_TOKEN_S: Final = 1.0
"""How long its first token may be waited for before the second endpoint is asked."""
SEARCH_S: Final = 0.3
HANGS: Final = "read"
"""The hop whose endpoint hangs."""
_HANG: Final = {"x-hopbudget-row": "pings-forever"}
_TIMES: Final[Mapping[str, tuple[float, float, int]]] = {
    "plan": (0.2, 0.02, 16),
    "read": (0.2, 0.02, 24),
    "answer": (0.25, 0.1, 11),
}
"""Of each hop: the first token and the pace, in seconds, and the tokens."""


class Agent:
    """Plans, searches, reads and answers, through a client and nothing else."""

    def __init__(self, side: Side, client: "AsyncOpenAI") -> None:
        self.side = side
        self.client = client

    async def run(self) -> None:
        """From the question to the last token of the answer."""
        for step in (self.plan, self.search, self.read):
            await self._shown(step)
        self.side.begin("answer")
        async for chunk in self.answer():
            self.side.hear(delta_of(chunk))
        self.side.end("answer")

    async def _shown(self, step: Callable[[], Any]) -> None:
        self.side.begin(step.__name__)
        await step()
        self.side.end(step.__name__)

    async def plan(self) -> None:
        """A hop."""
        await self._listen(await self.ask("plan"))

    async def search(self) -> None:
        """A tool."""
        await asyncio.sleep(SEARCH_S)

    async def read(self) -> None:
        """The hop whose endpoint hangs."""
        await self._listen(await self.ask("read", _HANG))

    async def answer(self) -> AsyncIterator["ChatCompletionChunk"]:
        """The final stream."""
        async for chunk in await self.ask("answer"):
            yield chunk

    async def _listen(self, stream: AsyncIterator["ChatCompletionChunk"]) -> None:
        async for chunk in stream:
            self.side.hear(delta_of(chunk))

    def ask(self, hop: str, fault: Mapping[str, str] | None = None, client: "AsyncOpenAI | None" = None) -> Any:
        """A stream of the client's, once it is awaited."""
        first_s, pace_s, tokens = _TIMES[hop]
        times = {"x-hopbudget-ttft": f"{first_s}", "x-hopbudget-tpot": f"{pace_s}", "x-hopbudget-tokens": f"{tokens}"}
        messages: Any = [{"role": "user", "content": f"{hop}: why do agents hang?"}]
        return (client or self.client).chat.completions.create(
            model=LARGE, messages=messages, stream=True, seed=0, extra_headers=dict(fault or times)
        )


class HeldAgent(Agent):
    """The same agent with hopbudget: a decorator on each step, and a second endpoint for the hop that may hang."""

    def __init__(self, side: Side, client: "AsyncOpenAI", second: "AsyncOpenAI") -> None:
        super().__init__(side, client)
        self.second = second

    @hb.hop("plan")
    async def plan(self) -> None:
        """Timed."""
        await self._listen(hb.watch(await self.ask("plan")))

    @hb.work("search")
    async def search(self) -> None:
        """Timed."""
        await super().search()

    @hb.hop("read")
    async def read(self) -> None:
        """Timed; where no first token comes, the second endpoint is asked."""
        await self._listen(await hb.failover(lambda: self.ask("read", _HANG), self._ask_again, after_s=FIRST_TOKEN_S))

    def _ask_again(self) -> Any:
        self.side.lane.asked_again_s = self.side.elapsed_s
        return self.ask("read", client=self.second)

    @hb.hop("answer", final=True)
    async def answer(self) -> AsyncIterator["ChatCompletionChunk"]:
        """Timed as it goes to the user."""
        async for chunk in super().answer():
            yield chunk
