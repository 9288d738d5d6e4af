"""One question to the research agent of `hopbudget demo`: eight hops, the answer streamed to the terminal.

    python examples/research_agent.py "night trains across Europe"
    python examples/research_agent.py --base-url http://localhost:8000/v1 --model my-model "night trains"

Without --base-url it asks the simulated endpoint. Its hops are recorded in ./traces.duckdb; look at them with
`hopbudget report`.
"""

import argparse
import asyncio
import os
from contextlib import nullcontext

from openai import AsyncOpenAI

import hopbudget as hb
from hopbudget.demo.agent import LARGE, SMALL, research
from hopbudget.demo.world import Turn
from hopbudget.endpoint import running


async def ask(topic: str, base_url: str, models: tuple[str, str]) -> None:
    """Print the answer as it comes."""
    async with AsyncOpenAI(base_url=base_url, api_key=os.environ.get("OPENAI_API_KEY", "none")) as client:
        await research(Turn(0, topic), client, models=models, on_text=lambda said: print(said, end="", flush=True))
    print()


def main() -> None:
    """Read the command line, record, ask."""
    parser = argparse.ArgumentParser()
    parser.add_argument("topic", nargs="?", default="heat pumps in old houses")
    parser.add_argument("--base-url", help="an OpenAI-compatible endpoint")
    parser.add_argument("--model", help="the model to ask there")
    parser.add_argument("--store", default="traces.duckdb")
    given = parser.parse_args()
    hb.init(given.store)
    models = (given.model, given.model) if given.model else (SMALL, LARGE)
    with nullcontext(given.base_url) if given.base_url else running() as address:
        base_url = address if given.base_url else f"{address}/v1"
        asyncio.run(ask(given.topic, base_url, models))


if __name__ == "__main__":
    main()
