"""The section of hop distributions: how long hops take, when they start to answer, how fast they go on."""

from typing import Final

import streamlit as st

from hopbudget.app import look
from hopbudget.app.data import Source, profile, report
from hopbudget.app.spread import Metric, Spread, hop_spreads, work_spreads
from hopbudget.app.strips import strips
from hopbudget.units import count, seconds, share

_PANELS: Final[tuple[tuple[Metric, str, str, str], ...]] = (
    ("duration_s", "Duration", look.UNSPLIT, "request to last token"),
    ("ttft_s", "First token (TTFT)", look.FIRST_TOKEN, "request to first generated token"),
    ("tpot_s", "Pace (TPOT)", look.WRITING, "seconds a token after the first"),
)


def section(source: Source, workload: str) -> None:
    """Draw the section."""
    st.header("Hops", anchor="hops")
    st.caption(
        "Each dot is one in a hundred of what was observed (or one, where there are fewer). "
        "Heavy tick: p50. Light tick: p90. Over what came out well."
    )
    ours = profile(source, workload)
    panels = [(title, hint, colour, hop_spreads(ours, metric)) for metric, title, colour, hint in _PANELS]
    panels[0] = (*panels[0][:3], [*panels[0][3], *work_spreads(ours)])
    shown = [panel for panel in panels if panel[3]]
    if not shown:
        st.info("No hop came out well yet.")
        return
    for column, (title, hint, colour, spreads) in zip(st.columns(len(shown)), shown, strict=True):
        with column:
            st.markdown(f"**{title}** :gray[· {hint}]")
            st.altair_chart(strips(spreads, title, colour).properties(description=_spoken(title, spreads)))
    if len(shown) == 1:
        st.caption("No first-token times were recorded, so there is no TTFT and no TPOT.")
    with st.expander("The numbers"):
        _numbers(source, workload)


def _spoken(title: str, spreads: list[Spread]) -> str:
    told = "; ".join(f"{s.name} p50 {seconds(s.p50)}, p90 {seconds(s.p90)}, n {s.n}" for s in spreads)
    return f"{title}: {told}"


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
