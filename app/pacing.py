"""Charts of pace: the share of streams that keep a reader waiting, and one stream's tokens over time."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import altair as alt
import numpy as np

from hopbudget.app import look
from hopbudget.app.axis import TimeAxis
from hopbudget.units import seconds, share

_HEIGHT: Final = 190
_PACES: Final = (2, 5, 10, 20, 50, 100, 200)
_STALL_S: Final = 1.0
_STALL_TIMES: Final = 10.0
_MOST_STEPS: Final = 1500


def waits(shares: Sequence[tuple[float, float]], pace: float) -> look.Drawn:
    """The share of streams that keep a reader waiting, by the reader's pace, with one pace marked."""
    values = [{"pace": at, "share": part, "words": share(part)} for at, part in shares]
    x = alt.X(
        "pace:Q",
        scale=alt.Scale(type="log", domain=[2, 200], nice=False),
        axis=alt.Axis(title="tokens a second that the reader takes", values=list(_PACES), grid=False),
    )
    y = alt.Y("share:Q", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(title=None, format="%", tickCount=5))
    tooltip = [alt.Tooltip("pace:Q", title="tokens a second"), alt.Tooltip("words:N", title="kept waiting")]
    base = look.marks(values).encode(x=x, y=y)
    area = base.mark_area(color=look.WRITING, opacity=0.25, interpolate="monotone")
    line = base.mark_line(color=look.WRITING, strokeWidth=2.5, interpolate="monotone")
    dots = base.mark_point(color=look.WRITING, size=20, filled=True).encode(tooltip=tooltip)
    rule = look.marks([{"pace": pace}]).mark_rule(color=look.INK, strokeWidth=1.5, strokeDash=[5, 3]).encode(x=x)
    return look.finish(area, line, dots, rule, rows_px=_HEIGHT, title=True)


def token_timeline(row: Mapping[str, Any], pace: float) -> look.Drawn:
    """Tokens of one stream as they came, the reader's line, and the gaps that stall."""
    gaps = np.asarray(row["itl_us"] or [], dtype=np.float64) / 1e6
    chunks = len(gaps) + 1
    each = (row["output_tokens"] or chunks) / chunks
    first_s = row["ttft_s"] if row["ttft_s"] is not None else 0.0
    came = np.concatenate(([first_s], first_s + np.cumsum(gaps)))
    tokens = each * np.arange(1, chunks + 1)
    keep = np.unique(np.linspace(0, chunks - 1, min(chunks, _MOST_STEPS)).astype(int))
    steps = [{"s": 0.0, "tokens": 0.0}] + [{"s": float(came[i]), "tokens": float(tokens[i])} for i in keep]
    end_s = float(came[-1])
    axis = TimeAxis(0.0, end_s * 1.04 or 1.0, False, "from the request")
    y = alt.Y("tokens:Q", axis=alt.Axis(title="tokens", tickCount=5))
    line = look.marks(steps).mark_line(color=look.WRITING, strokeWidth=2.5, interpolate="step-after")
    read_to = min(first_s + float(tokens[-1]) / pace, axis.high)
    reader = [
        {"s": first_s, "tokens": 0.0},
        {"s": read_to, "tokens": (read_to - first_s) * pace},
    ]
    reading = look.marks(reader).mark_line(color=look.INK, strokeDash=[6, 4], strokeWidth=1.5)
    first = look.marks([{"s": 0.0, "end": first_s, "tokens": 0.0, "words": seconds(first_s)}])
    waited = first.mark_bar(color=look.FIRST_TOKEN, height=6).encode(
        x=axis.encode("s"), x2="end:Q", y=y, tooltip=[alt.Tooltip("words:N", title="first token after")]
    )
    layers = [line.encode(x=axis.encode("s"), y=y), reading.encode(x=axis.encode("s"), y=y), waited]
    limit_s = max(_STALL_S, _STALL_TIMES * float(np.median(gaps))) if len(gaps) else _STALL_S
    stalls = [
        {"s": float(came[i]), "end": float(came[i + 1]), "tokens": float(tokens[i]), "words": seconds(float(gaps[i]))}
        for i in np.flatnonzero(gaps > limit_s)
    ]
    if stalls:
        layers.append(
            look.marks(stalls)
            .mark_rule(color=look.OVER, strokeWidth=4)
            .encode(x=axis.encode("s"), x2="end:Q", y=y, tooltip=[alt.Tooltip("words:N", title="nothing for")])
        )
    return look.finish(*layers, rows_px=_HEIGHT, title=True)
