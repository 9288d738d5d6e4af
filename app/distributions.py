"""The section of hop distributions: how long hops take, when they start to answer, how fast they go on."""

from dataclasses import dataclass

import streamlit as st

from hopbudget.app import look
from hopbudget.app.data import Source, profile, report
from hopbudget.app.spread import Spread, hop_spreads, work_spreads
from hopbudget.app.strips import strips
from hopbudget.budgets import Profile
from hopbudget.units import count, seconds, share


@dataclass(frozen=True, slots=True)
class _Panel:
    title: str
    hint: str
    colour: str
    spreads: list[Spread]


def section(source: Source, workload: str) -> None:
    """Draw the section."""
    st.header("Hops", anchor="hops")
    st.caption(
        "Each dot is one in a hundred of what was observed (or one, where there are fewer). "
        "Heavy tick: p50. Light tick: p90. Over what came out well."
    )
    panels = [panel for panel in _panels(profile(source, workload)) if panel.spreads]
    for first in range(0, len(panels), 2):
        pair = panels[first : first + 2]
        for column, panel in zip(st.columns(len(pair), gap="large"), pair, strict=True):
            with column:
                st.markdown(f"**{panel.title}** :gray[· {panel.hint}]")
                drawn = strips(panel.spreads, panel.title, panel.colour)
                st.altair_chart(drawn.properties(description=_spoken(panel)))
    if not any(panel.colour == look.FIRST_TOKEN for panel in panels):
        st.caption("No first-token times were recorded, so there is no TTFT and no TPOT.")
    with st.expander("The numbers"):
        _numbers(source, workload)


def _panels(ours: Profile) -> list[_Panel]:
    return [
        _Panel("Duration", "request to last token", look.UNSPLIT, hop_spreads(ours, "duration_s")),
        _Panel("Work", "tools and what else has a span", look.WORK, work_spreads(ours)),
        _Panel("First token (TTFT)", "request to first generated token", look.FIRST_TOKEN, hop_spreads(ours, "ttft_s")),
        _Panel("Pace (TPOT)", "a token, after the first", look.WRITING, hop_spreads(ours, "tpot_s")),
    ]


def _spoken(panel: _Panel) -> str:
    told = "; ".join(f"{s.name} p50 {seconds(s.p50)}, p90 {seconds(s.p90)}, n {s.n}" for s in panel.spreads)
    return f"{panel.title}: {told}"


def _numbers(source: Source, workload: str) -> None:
    rows = []
    for row in report(source, workload)["by_hop"]:
        outcomes = {name: n for name, n in row["outcomes"].items() if name != "ok"}
        rows.append(
            {
                "hop": row["hop"],
                "n": count(row["n"]),
                **{f"duration {q}": seconds(row["duration_s"][q]) for q in ("p50", "p95", "p99")},
                **{f"TTFT {q}": seconds(row["ttft_s"][q]) for q in ("p50", "p95", "p99") if row["ttft_s"]["n"]},
                **{f"TPOT {q}": seconds(row["tpot_s"][q]) for q in ("p50", "p95", "p99") if row["tpot_s"]["n"]},
                "not ok": ", ".join(f"{count(n)} {name.replace('_', ' ')}" for name, n in outcomes.items()) or "none",
            }
        )
    st.dataframe(rows, hide_index=True)
    split = report(source, workload)["time_split"]
    total = sum(split.values())
    if total > 0:
        words = (
            ("first_token_s", "waiting for first tokens"),
            ("writing_s", "writing"),
            ("hop_unsplit_s", "hops without a first-token time"),
            ("work_s", "work"),
        )
        st.caption(
            "Where the time went: "
            + ", ".join(f"{name} {share(split[key] / total)}" for key, name in words if split[key] > 0)
        )
