"""A research agent of eight unlike hops, as one would write it, with four kinds of hopbudget decorators on it.

    understand > plan > [search-queries > search > fetch and read each > rank > extract > verify]... > outline > answer

It asks any OpenAI-compatible endpoint. What a `Turn` fixes beforehand (how many rounds it needs, how long it writes)
a real agent would leave to the model.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Final

import hopbudget as hb
from hopbudget.demo.world import Turn

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

WORKLOAD: Final = "research-agent"
SMALL: Final = "sim-small"
LARGE: Final = "sim-large"


class ResearchAgent:
    """Answers one question. A hop is a model call, a work is a tool; one method each."""

    def __init__(
        self,
        client: "AsyncOpenAI",
        turn: Turn,
        *,
        models: tuple[str, str] = (SMALL, LARGE),
        on_text: Callable[[str], None] | None = None,
    ) -> None:
        self._client = client
        self._turn = turn
        self._small, self._large = models
        self._on_text = on_text
        self._visits: dict[str, int] = {}

    async def run(self) -> str:
        """From the question to the last token of the answer."""
        aim = text_of(await self.understand(self._turn.topic))
        steps = await self.plan(aim)
        notes = ""
        for _ in range(self._turn.rounds):
            queries = await self.search_queries(steps, notes)
            links = await self.search(queries)
            pages = await asyncio.gather(*(self.look_into(link) for link in links))
            notes += await self.extract(self.rank(list(pages)))
            await self.verify(notes)
        outline = await self.outline(notes)
        answer = ""
        async for chunk in self.answer(outline):
            said = delta_of(chunk)
            answer += said
            if self._on_text is not None:
                self._on_text(said)
        return answer

    async def look_into(self, link: str) -> str:
        """Fetch one page and read it; several of these run at once."""
        return await self.read(await self.fetch(link))

    # --- hops ------------------------------------------------------------------------------------------------

    @hb.hop("understand")
    async def understand(self, topic: str) -> "ChatCompletion":
        """What is asked for? A call without a stream: the hop reads the reply that it returns."""
        return await self._ask("understand", self._small, f"In one line, what is asked for? {topic}", 14)

    @hb.hop("plan")
    async def plan(self, aim: str) -> str:
        """Steps to take."""
        return await self._read_stream("plan", self._large, f"Plan the research: {aim}", 16)

    @hb.hop("search-queries")
    async def search_queries(self, steps: str, notes: str) -> str:
        """What to look for next."""
        return await self._read_stream("search-queries", self._small, f"Search queries for: {steps} Known: {notes}", 12)

    @hb.hop("read")
    async def read(self, page: str) -> str:
        """What one page says."""
        return await self._read_stream("read", self._small, f"What does this page say? {page}", 16)

    @hb.hop("extract")
    async def extract(self, readings: list[str]) -> str:
        """Facts out of readings."""
        return await self._read_stream("extract", self._small, f"Facts in: {' '.join(readings)}", 22)

    @hb.hop("verify")
    async def verify(self, notes: str) -> "ChatCompletion":
        """Do the facts hold?"""
        return await self._ask("verify", self._small, f"Do these facts agree? {notes}", 10)

    @hb.hop("outline")
    async def outline(self, notes: str) -> str:
        """The order of the answer."""
        return await self._read_stream("outline", self._small, f"Outline an answer from: {notes}", 20)

    @hb.hop("answer", final=True)
    async def answer(self, outline: str) -> AsyncIterator["ChatCompletionChunk"]:
        """The answer, streamed to whoever waits for it."""
        async for chunk in await self._stream("answer", self._large, f"Write it: {outline}", self._turn.answer_tokens):
            yield chunk

    # --- tools -----------------------------------------------------------------------------------------------

    @hb.work("search")
    async def search(self, queries: str) -> list[str]:
        """A search engine that takes its time."""
        await asyncio.sleep(self._turn.search_s)
        return [f"{queries[:40]} ({number})" for number in range(self._turn.sources)]

    @hb.work("fetch")
    async def fetch(self, link: str) -> str:
        """A page from the web."""
        await asyncio.sleep(self._turn.fetch_s)
        return f"{link}: {self._turn.topic}, at some length. " * 8

    @hb.work("rank")
    def rank(self, readings: list[str]) -> list[str]:
        """Best first. Plain functions are timed like coroutines."""
        return sorted(readings, key=len, reverse=True)

    # --- the client, as it is --------------------------------------------------------------------------------

    async def _ask(self, hop: str, model: str, prompt: str, tokens: int) -> "ChatCompletion":
        completion: ChatCompletion = await self._client.chat.completions.create(
            stream=False, **self._request(hop, model, prompt, tokens)
        )
        return completion

    async def _stream(self, hop: str, model: str, prompt: str, tokens: int) -> AsyncIterator["ChatCompletionChunk"]:
        stream: AsyncIterator[ChatCompletionChunk] = await self._client.chat.completions.create(
            stream=True, stream_options={"include_usage": True}, **self._request(hop, model, prompt, tokens)
        )
        return stream

    async def _read_stream(self, hop: str, model: str, prompt: str, tokens: int) -> str:
        stream = hb.watch(await self._stream(hop, model, prompt, tokens))
        return "".join([delta_of(chunk) async for chunk in stream])

    def _request(self, hop: str, model: str, prompt: str, tokens: int) -> dict[str, Any]:
        visit = self._visits[hop] = self._visits.get(hop, 0) + 1
        return {
            "model": model,
            "messages": [{"role": "user", "content": prompt}],
            "seed": self._turn.seed(hop, visit),
            "extra_headers": {"x-hopbudget-tokens": str(tokens), **self._turn.knobs(hop)},
        }


async def research(
    turn: Turn,
    client: "AsyncOpenAI",
    *,
    run: str | None = None,
    models: tuple[str, str] = (SMALL, LARGE),
    on_text: Callable[[str], None] | None = None,
) -> str:
    """One trajectory: the answer to one question. `on_text` gets the final stream as it comes."""
    with hb.trajectory(WORKLOAD, run=run, attributes={"demo.topic": turn.topic}):
        return await ResearchAgent(client, turn, models=models, on_text=on_text).run()


def delta_of(chunk: "ChatCompletionChunk") -> str:
    """The text that one chunk adds."""
    return (chunk.choices[0].delta.content or "") if chunk.choices else ""


def text_of(completion: "ChatCompletion") -> str:
    """The text of a reply."""
    return completion.choices[0].message.content or ""
