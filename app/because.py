"""Charts of causes over many: by kind, by hop, and what breached ones have in common."""

from collections.abc import Sequence
from typing import Final

import altair as alt

from hopbudget.app import look
from hopbudget.app.axis import TimeAxis, linear_ticks
from hopbudget.budgets.blame.breaches import Breaches, CauseShare, InCommon
from hopbudget.budgets.blame.causes import WORK_KINDS
from hopbudget.render.breaches import place_name, rest_of_causes, rest_of_hops, shown_causes, shown_hops
from hopbudget.render.causes import COLOUR, NAME
from hopbudget.units import count, seconds, share

_ROW: Final = 27
_SMALL: Final = 0.004
_ROOM: Final = 0.3


def colour(kind: str) -> str:
    """The colour of a kind of cause; grey for one that has none of its own."""
    found = COLOUR.get(kind)  # type: ignore[call-overload]
    return found if found is not None and found.startswith("#") else look.QUIET


def name(kind: str) -> str:
    """A kind of cause in words."""
    return str(NAME.get(kind, kind.replace("_", " ")))  # type: ignore[call-overload]


def by_cause(found: Breaches) -> look.Drawn:
    """One bar a kind of cause, in seconds over all late trajectories."""
    shown, rest = shown_causes(found), rest_of_causes(found)
    values: list[dict[str, object]] = [
        {
            "row": cause.kind,
            "s": 0.0,
            "end": cause.seconds,
            "right": max(cause.seconds, cause.high * found.excess_s if cause.high == cause.high else 0.0, 0.0),
            "colour": colour(cause.kind),
            "words": f"{share(cause.share)} ({count(cause.main_in)})",
            "seconds": seconds(cause.seconds, signed=True),
            "name": name(cause.kind),
            "n": cause.n,
            **_interval(cause, found.excess_s),
        }
        for cause in shown
    ]
    names = {str(cause.kind): name(cause.kind) for cause in shown}
    sizes = [cause.seconds for cause in shown]
    if rest is not None:
        values.append(_rest(*rest, found.late))
        names["rest"] = "rest"
        sizes.append(rest[1])
    axis = _axis([*sizes, *_ends(shown, found.excess_s)])
    y = look.labelled(names, width=150, paddingInner=0.3)
    base = look.marks(values).encode(
        y=y,
        tooltip=[
            alt.Tooltip("name:N", title="cause"),
            alt.Tooltip("seconds:N"),
            alt.Tooltip("words:N", title="share"),
            alt.Tooltip("interval:N", title="95%"),
            alt.Tooltip("n:Q", title="late ones that can show it"),
        ],
    )
    bars = base.mark_bar(cornerRadius=2).encode(x=axis.encode("s"), x2="end:Q", color=alt.Color("colour:N", scale=None))
    reach = base.mark_rule(strokeWidth=1.5, color=look.INK, opacity=0.6).encode(x=axis.encode("low"), x2="high:Q")
    text = base.mark_text(align="left", dx=5, fontSize=11, fill=look.INK).encode(x=axis.encode("right"), text="words:N")
    return look.finish(_zero(axis), bars, reach, text, rows_px=_ROW * len(names))


def _rest(of_excess: float, rest_s: float, late: int, called: str = "rest") -> dict[str, object]:
    """The row of those that have none of their own."""
    return {
        "row": called,
        "s": 0.0,
        "end": rest_s,
        "right": max(rest_s, 0.0),
        "colour": look.QUIET,
        "words": share(of_excess),
        "seconds": seconds(rest_s, signed=True),
        "name": called,
        "n": late,
        "low": rest_s,
        "high": rest_s,
        "interval": "-",
    }


def _ends(causes: Sequence[CauseShare], excess_s: float) -> list[float]:
    return [end * excess_s for cause in causes if cause.low == cause.low for end in (cause.low, cause.high)]


def _interval(cause: CauseShare, excess_s: float) -> dict[str, object]:
    """The ends of a cause's interval in seconds, at the bar's own end where there is none, and in words."""
    if cause.low != cause.low:
        return {"low": cause.seconds, "high": cause.seconds, "interval": "too few late ones"}
    words = f"{share(cause.low)} to {share(cause.high)}"
    return {"low": cause.low * excess_s, "high": cause.high * excess_s, "interval": words}


def by_hop(found: Breaches) -> look.Drawn:
    """One row a hop or work, its causes end to end: what took longer to the right, what saved time to the left."""
    keys = {_key(hop.name, hop.work): hop for hop in shown_hops(found)}
    right, left = dict.fromkeys(keys, 0.0), dict.fromkeys(keys, 0.0)
    values = []
    for place in sorted(found.places, key=lambda place: -abs(place.seconds)):
        key = _key(place.name, place.kind in WORK_KINDS)
        if key not in keys or abs(place.share) < _SMALL / 2:
            continue
        side = right if place.seconds > 0 else left
        values.append(
            {
                "row": key,
                "s": side[key],
                "end": side[key] + place.seconds,
                "colour": colour(place.kind),
                "name": name(place.kind),
                "words": seconds(place.seconds, signed=True),
                "share": share(place.share),
            }
        )
        side[key] += place.seconds
    totals = [{"row": key, "right": right[key], "words": f"{share(hop.share)}"} for key, hop in keys.items()]
    named = {key: place_name(hop.name, hop.work) for key, hop in keys.items()}
    rest = rest_of_hops(found)
    if rest is not None:
        of_excess, rest_s = rest
        row = _rest(of_excess, rest_s, found.late, "others")
        values.append({**row, "words": row["seconds"], "share": row["words"]})
        totals.append({"row": "others", "right": max(rest_s, 0.0), "words": share(of_excess)})
        named["others"] = "others"
        right["others"] = max(rest_s, 0.0)
        left["others"] = min(rest_s, 0.0)
    axis = _axis([*right.values(), *left.values()])
    y = look.labelled(named, width=150, paddingInner=0.3)
    bars = (
        look.marks(values)
        .mark_bar(cornerRadius=2)
        .encode(
            x=axis.encode("s"),
            x2="end:Q",
            y=y,
            color=alt.Color("colour:N", scale=None),
            tooltip=[
                alt.Tooltip("name:N", title="cause"),
                alt.Tooltip("words:N", title="seconds"),
                alt.Tooltip("share:N", title="of the excess"),
            ],
        )
    )
    text = (
        look.marks(totals)
        .mark_text(align="left", dx=5, fontSize=11, fill=look.INK)
        .encode(x=axis.encode("right"), y=y, text="words:N")
    )
    return look.finish(_zero(axis), bars, text, rows_px=_ROW * len(named))


def _key(hop: str, work: bool) -> str:
    return f"{'work' if work else 'hop'}/{hop}"


def in_common(shown: Sequence[InCommon]) -> look.Drawn:
    """One row a trait: how many points more often those with it breach, with its interval."""
    values = [
        {
            "row": str(index),
            "points": 100 * common.effect.difference,
            "low": 100 * common.effect.low,
            "high": 100 * common.effect.high,
            "sure": common.effect.beyond_chance,
            "words": f"{share(common.effect.risk_with)} of {count(common.effect.n_with)}, "
            f"others {share(common.effect.risk_without)}",
            "name": f"{common.factor}: {common.level}",
        }
        for index, common in enumerate(shown)
    ]
    edges = [100 * end for common in shown for end in (common.effect.low, common.effect.high)]
    low, high = min([0.0, *edges]), max([0.0, *edges])
    room = _ROOM * (high - low)
    x = alt.X(
        "points:Q",
        scale=alt.Scale(domain=[low - 0.04 * (high - low), high + room], nice=False),
        axis=alt.Axis(
            title="percentage points more of them breach", values=linear_ticks(low, high), format="+d", grid=True
        ),
    )
    y = look.labelled({str(index): f"{c.factor}: {c.level}" for index, c in enumerate(shown)}, width=330)
    tooltip = [alt.Tooltip("name:N", title="those with"), alt.Tooltip("words:N", title="breached")]
    base = look.marks(values).encode(y=y, tooltip=tooltip)
    ink = alt.Color("sure:N", scale=alt.Scale(domain=[False, True], range=[look.QUIET, look.OVER]), legend=None)
    span = base.mark_rule(strokeWidth=2).encode(x=_on(x, "low"), x2="high:Q", color=ink)
    dot = base.mark_point(size=60, filled=True, opacity=1).encode(
        x=x,
        color=ink,
        shape=alt.Shape("sure:N", scale=alt.Scale(domain=[False, True], range=["circle", "diamond"]), legend=None),
    )
    text = base.mark_text(align="right", fontSize=11, fill=look.INK).encode(x=alt.value("width"), text="words:N")
    zero = look.marks([{"points": 0.0}]).mark_rule(color=look.QUIET).encode(x=x)
    return look.finish(zero, span, dot, text, rows_px=_ROW * len(shown), title=True)


def _on(x: alt.X, field: str) -> alt.X:
    """The same scale and axis for another field."""
    made: alt.X = x.copy()
    made.shorthand = f"{field}:Q"
    return made


def _axis(edges: Sequence[float]) -> TimeAxis:
    low, high = min([0.0, *edges]), max([0.0, *edges])
    size = (high - low) or 1.0
    return TimeAxis(low - (0.03 * size if low < 0 else 0.0), high + _ROOM * size, False)


def _zero(axis: TimeAxis) -> alt.Chart:
    drawn: alt.Chart = look.marks([{"s": 0.0}]).mark_rule(color=look.QUIET).encode(x=axis.encode("s"))
    return drawn
