"""What the inference server says of a call: its own durations, never its clock, which is another one. Pure."""

from collections.abc import Sequence
from typing import Final

from hopbudget.store.rows import HopRow
from hopbudget.store.spans import Attributes
from hopbudget.store.tree import Node
from hopbudget.store.values import number

LONGER: Final = "server_longer"
"""The server says that it took longer than its client waited."""
_NAMES: Final = {
    "server_ttft_s": "gen_ai.latency.time_to_first_token",
    "server_queue_s": "gen_ai.latency.time_in_queue",
    "server_prefill_s": "gen_ai.latency.time_in_model_prefill",
    "server_decode_s": "gen_ai.latency.time_in_model_decode",
    "server_e2e_s": "gen_ai.latency.e2e",
}
_EPS_S: Final = 1e-3
_REQUEST: Final = "gen_ai.request.id"
_RESPONSE: Final = "gen_ai.response.id"
_SHORTEST_ID: Final = 8


def add(row: HopRow, engines: Sequence[Node]) -> str | None:
    """Put the durations of the request that answered into the hop's row; a word where they can't be right."""
    last = max(engines, key=lambda node: (node.span.end_ns, node.span.span_id))
    for column, name in _NAMES.items():
        setattr(row, column, number(last.span.attributes.get(name)))
    if row.server_prefill_s is None and row.server_ttft_s is not None and row.server_queue_s is not None:
        rest = row.server_ttft_s - row.server_queue_s
        row.server_prefill_s = rest if rest >= 0 else None
    if row.server_e2e_s is not None and row.server_e2e_s > row.duration_s + _EPS_S:
        return LONGER
    return None


def answers(engine: Node, attributes: Attributes) -> bool:
    """Whether the server's span is about the response with this id, which it may write with something after it."""
    request, response = engine.span.attributes.get(_REQUEST), attributes.get(_RESPONSE)
    return (
        isinstance(request, str)
        and isinstance(response, str)
        and len(response) >= _SHORTEST_ID
        and (request == response or request.startswith(f"{response}-"))
    )
