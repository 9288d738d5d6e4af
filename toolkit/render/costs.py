"""What trajectories cost, on the screen of `hopbudget report`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from hopbudget.render import base
from hopbudget.units import count, plural, share

_MOST: Final = 6


def costs(out: Console, found: Mapping[str, Any] | None) -> None:
    """Draw the cost of trajectories, by hop, and of how many hops it is known; nothing where no price is said."""
    if not found:
        return
    each = found["trajectory"]
    if each["n"]:
        out.print(Text("Cost, of those that came out well", style="bold"))
        rows = base.table("", "n", "p50", "p90", "p95", "p99", "mean")
        levels = (money(each[name]) for name in ("p50", "p90", "p95", "p99", "mean"))
        rows.add_row("trajectory", count(each["n"]), *levels)
        out.print(rows)
    else:
        out.print(Text("Cost: known of no trajectory that came out well", style="bold"))
    if found["by_hop"]:
        parts = [f"{hop['hop']} {share(hop['share'])}" for hop in found["by_hop"][:_MOST]]
        more = len(found["by_hop"]) - _MOST
        words = ", ".join(parts) + (f" and {more} more" if more > 0 else "")
        out.print(base.name(f"in all {_least(found)}{money(found['total'])}: {words}", 2 * base.WIDTH))
    for line in _coverage(found):
        out.print(Text(line, style=base.QUIET))
    out.print()


def known_of(found: Sequence[Mapping[str, Any]]) -> str:
    """Of how many trajectories that came out well the cost is known, as a sentence."""
    n, of = sum(each["trajectory"]["n"] for each in found), sum(each["came_well"] for each in found)
    all_of = f"{count(n)} of {plural(of, 'trajectory', 'trajectories')} that came out well"
    return f"cost: of {all_of}, whose every hop has tokens and a price ({found[0]['prices_from']}, in its currency)"


def money(value: float | None) -> str:
    """An amount in the currency of the prices, three significant figures; "-" where it is not known."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:#.3g}".rstrip(".")


def _least(found: Mapping[str, Any]) -> str:
    return "" if found["priced"] == found["hops"] else "at least "


def _coverage(found: Mapping[str, Any]) -> list[str]:
    known = f"{count(found['priced'])} of {plural(found['hops'], 'hop', 'hops')} have tokens and a price"
    lines = [f"{known} ({found['prices_from']}, in its currency)"]
    missing = []
    if found["without_price"]:
        models = ", ".join(f"{model or 'no model'} ({count(n)})" for model, n in found["without_price"].items())
        missing.append(f"no price: {models}")
    if found["without_tokens"]:
        missing.append(f"no tokens: {plural(found['without_tokens'], 'hop', 'hops')}")
    return [*lines, *(["; ".join(missing)] if missing else [])]
