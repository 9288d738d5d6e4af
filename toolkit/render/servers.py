"""What inference servers told of hops: waits split into queue, prefill and what lies outside the server."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from hopbudget.render import base
from hopbudget.units import plural, seconds, share

_NAMES: Final = {
    "queue_s": "queue",
    "prefill_s": "prefill",
    "outside_s": "outside the server",
    "decode_s": "decode",
    "delivery_s": "delivery",
}
_WAIT: Final = ("queue_s", "prefill_s", "outside_s")
_MOST_HOPS: Final = 24


def of_one(out: Console, splits: Sequence[Mapping[str, Any]]) -> None:
    """Draw the split of each hop of a trajectory; nothing where no server told."""
    if not splits:
        return
    rows = base.table("hop", "TTFT", "queue", "prefill", "outside", "decode", "delivery", title="Inside the server")
    for found in splits[:_MOST_HOPS]:
        rows.add_row(
            base.name(f"{found['hop']} #{found['visit']}", 24),
            seconds(found["ttft_s"]),
            *(seconds(found[name]) for name in _NAMES),
        )
    out.print(rows)
    out.print()


def over_many(out: Console, servers: Mapping[str, Any] | None) -> None:
    """Draw how waits for first tokens split over many hops; nothing where no server told."""
    if not servers:
        return
    parts = servers["parts"]
    waited = sum(parts[name]["sum"] for name in _WAIT if name in parts)
    each = ", ".join(
        f"{_NAMES[name]} {share(parts[name]['sum'] / waited) if waited else '-'} (p95 {seconds(parts[name]['p95'])})"
        for name in _WAIT
        if name in parts
    )
    of = plural(servers["hops"], "hop whose server told", "hops whose servers told")
    for line in base.wrap(f"Waits for first tokens, of {of}: {each}", base.WIDTH):
        out.print(Text(line))
    out.print()
