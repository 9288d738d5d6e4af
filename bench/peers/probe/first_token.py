"""Row B: a role chunk at 0.10 s, an empty chunk at 0.20 s, the first content at 0.60 s. What is the first token?"""

import time
from typing import Any

from bench.peers.probe.adapters import Adapter
from bench.peers.probe.ways_out import ask


def run(adapter: Adapter, base_url: str) -> dict[str, Any]:
    """What the library calls first, by attribute, event or metric; and the truth by this process's own clock."""
    import openai

    client = openai.OpenAI(base_url=base_url, api_key="simulated", max_retries=0)
    for _ in adapter.open(client.chat.completions.create, **ask("A1")):
        pass  # the first call of a process pays for what later ones find ready
    adapter.take()
    adapter.first_metrics()
    began = time.perf_counter()
    true_s = None
    for chunk in adapter.open(client.chat.completions.create, **ask("B")):
        if true_s is None and chunk.choices and chunk.choices[0].delta.content:
            true_s = time.perf_counter() - began
    reported: dict[str, float] = {}
    for record in adapter.take():
        for key, value in record.first_s.items():
            reported.setdefault(key, value)
    metrics = {name: value for name, value in adapter.first_metrics().items() if name not in reported}
    client.close()
    return {"true_s": true_s, "reported": reported, "metrics": metrics}
