"""Tokens and pace in words, where tokens were counted in chunks too: a chunk may hold several of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hopbudget.render import base
from hopbudget.units import count, plural, seconds

_MOST: Final = 8


def tokens(hop: Mapping[str, Any]) -> str:
    """N of the row of one hop; "-" where it is not known."""
    n = hop["output_tokens"]
    if n is None:
        return "-"
    return plural(int(n), "chunk", "chunks") if in_chunks(hop) else count(int(n))


def tpot(hop: Mapping[str, Any]) -> str:
    """TPOT of the row of one hop; "-" where it is not known."""
    return seconds(hop["tpot_s"]) + (" by chunk" if hop["tpot_s"] is not None and in_chunks(hop) else "")


def in_chunks(hop: Mapping[str, Any]) -> bool:
    """Whether N of the row of one hop was counted in chunks."""
    return bool(hop.get("output_tokens_source") == "chunks")


def by_chunks(hops: Sequence[Mapping[str, Any]]) -> str:
    """Of which hops of a report the TPOT is no time by token, as a sentence; "" where it is one of all."""
    told = [(hop["hop"], hop["tpot_by_chunks"], hop["tpot_s"]["n"]) for hop in hops if hop["tpot_by_chunks"]]
    if not told:
        return ""
    listed = ", ".join(f"{base.name(hop, 28)} ({count(n)} of {count(of)})" for hop, n, of in told[:_MOST])
    more = f" and {plural(len(told) - _MOST, 'hop', 'hops')} more" if len(told) > _MOST else ""
    return (
        f"Tokens were counted in chunks: {listed}{more}. There TPOT is a time by chunk, which may hold several "
        "tokens; no objective and no plan takes it."
    )
