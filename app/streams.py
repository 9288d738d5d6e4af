"""Streams: the wait for the first token, the pace after it, and the gaps, apart; stalls; who would have waited."""

from typing import Any, Final

import streamlit as st

from hopbudget.app import link, look
from hopbudget.app.data import PATIENCE, Scope, cut_off, gaps, hop_spreads, report, stalled, stream
from hopbudget.app.pacing import token_timeline, waits
from hopbudget.app.strips import strips
from hopbudget.budgets.attainment.spread import Spread
from hopbudget.render import counted
from hopbudget.render.base import id_digits
from hopbudget.render.report import still_waiting
from hopbudget.units import count, plural, seconds, share

_BY: Final = {"hop": "by hop", "model": "by model"}
_OVER_S: Final = tuple(map(str, PATIENCE))
_PACES: Final = ("3", "5", "8", "12", "20", "35", "60", "100")
_MOST: Final = 50


def page(scope: Scope) -> None:
    """Draw the page."""
    if not hop_spreads(scope, "ttft_s"):
        st.info(
            "No first-token times were recorded, so there is no TTFT, no TPOT and no gap. Trace with hopbudget's own "
            "decorators or clients, or with a tracer that records when the first chunk came.",
            icon=":material/graphic_eq:",
        )
        _cut_off(scope, "streams")
        link.publish([], always=[link.WORKLOAD, link.WHERE])
        return
    _three(scope)
    _cut_off(scope, "more streams")
    _waiting(scope)
    _stalls(scope)
    link.publish(["over", link.PACE, "split"], always=[link.WORKLOAD, link.WHERE, link.STREAM])


def _three(scope: Scope) -> None:
    link.settle("split", list(_BY), "hop")
    split = st.segmented_control(
        "Split", list(_BY), key="split", format_func=lambda key: _BY[key], required=True, label_visibility="collapsed"
    )
    by: Any = split or "hop"
    found = gaps(scope)
    first, pace = hop_spreads(scope, "ttft_s", by), hop_spreads(scope, "tpot_s", by)
    panels = (
        ("First token (TTFT)", "request to first generated token", look.FIRST_TOKEN, first),
        ("Pace (TPOT)", "average gap of a request after its first token", look.WRITING, pace),
        ("Gaps (ITL)", "each gap between chunks, by hop", look.UNSPLIT, found.spreads),
    )
    for column, (title, hint, colour, spreads) in zip(st.columns(3, gap="large"), panels, strict=True):
        with column:
            st.markdown(f"**{title}**  \n:gray[{hint}]")
            if spreads:
                st.altair_chart(strips(spreads, title, colour).properties(description=_spoken(title, spreads)))
            else:
                st.caption("Not recorded.")
    words = "Each dot stands for a fiftieth of what came out well. Heavy tick p50, light tick p90."
    if found.streams < found.of:
        words += f" Gaps are those of {count(found.streams)} of {plural(found.of, 'stream', 'streams')}."
    st.caption(words)
    by_chunks = counted.by_chunks(report(scope)["by_hop"])
    if by_chunks:
        st.warning(by_chunks, icon=":material/straighten:")


def _cut_off(scope: Scope, streams: str) -> None:
    cut = cut_off(scope)
    if cut is not None:
        st.warning(still_waiting(cut, streams), icon=":material/hourglass_disabled:")


def _spoken(title: str, spreads: list[Spread]) -> str:
    told = "; ".join(f"{s.name} p50 {seconds(s.p50)}, p90 {seconds(s.p90)}, n {s.n}" for s in spreads)
    return f"{title}: {told}"


def _waiting(scope: Scope) -> None:
    st.subheader("Who would have had to wait", anchor="underrun")
    columns = st.columns([1, 1, 2], vertical_alignment="bottom")
    link.settle(link.PACE, _PACES, "12")
    link.settle("over", _OVER_S, "0.25")
    with columns[0]:
        pace = float(
            str(st.select_slider("Pace of the reader", _PACES, key=link.PACE, format_func=lambda p: f"{p} tokens/s"))
        )
    with columns[1]:
        over = st.segmented_control(
            "Waited",
            _OVER_S,
            key="over",
            required=True,
            format_func=lambda s: "at all" if float(s) == 0 else f"over {seconds(float(s))}",
        )
    found = gaps(scope)
    shares, read, of = found.waiting[float(over or 0.25)], found.streams, found.of
    here = min(shares, key=lambda item: abs(item[0] - pace), default=None)
    if not read or here is None:
        st.caption("No stream with gaps came to its end.")
        return
    with columns[2]:
        st.metric(f"Streams that keep a reader of {pace:g} tokens/s waiting", share(here[1]))
    drawn = waits(shares, pace)
    st.altair_chart(drawn.properties(description=f"Underrun: {share(here[1])} of streams at {pace:g} tokens a second"))
    st.caption(
        "The reader begins with the first token and takes so many tokens a second; the longest wait in the stream "
        f"counts. From {count(read)}"
        + (f" of {count(of)}" if read < of else "")
        + " streams. A person reads about 5 tokens a second, speech takes about 3."
    )


def _stalls(scope: Scope) -> None:
    st.subheader("The longest gaps", anchor="stalls")
    rows = stalled(scope)[:_MOST]
    if not rows:
        st.caption("No gaps were recorded.")
        return
    chosen = _pick(rows)
    found = stream(scope.source, chosen)
    if found is None:
        st.warning(f"The link names the stream `{chosen}`, which this store does not hold.")
        found = stream(scope.source, _address(rows[0]))
    if found is not None:
        _one(found)


def _pick(rows: list[dict[str, Any]]) -> str:
    digits = id_digits([row["trace_id"] for row in rows])
    listed = [
        {
            "hop": f"{row['hop']} #{row['visit']}",
            "model": row["model"] or "-",
            "longest gap": row["longest_s"],
            "after chunk": count(row["after_chunk"]),
            "TTFT": seconds(row["ttft_s"]),
            "TPOT": counted.tpot(row),
            "tokens": counted.tokens(row),
            "outcome": str(row["outcome"]).replace("_", " "),
            "trajectory": row["trace_id"][:digits],
        }
        for row in rows
    ]
    picked = st.dataframe(
        listed,
        hide_index=True,
        height=260,
        on_select="rerun",
        selection_mode="single-row",
        key="stalled",
        column_config={
            "longest gap": st.column_config.ProgressColumn(
                "longest gap", format="%.3f s", min_value=0.0, max_value=max(row["longest_s"] for row in rows)
            )
        },
    )
    ids = [_address(row) for row in rows]
    now = picked["selection"]["rows"] if picked else []
    chosen = link.chosen(link.STREAM) or ids[0]
    if now and (now, ids) != st.session_state.get("stalled-rows"):
        chosen = ids[now[0]]
    st.session_state["stalled-rows"] = (now, ids)
    st.session_state[link.STREAM] = chosen
    return chosen


def _address(row: dict[str, Any]) -> str:
    return f"{row['trace_id'][:12]}.{row['span_id']}"


def _one(row: dict[str, Any]) -> None:
    st.markdown(
        f"**One stream's tokens** :gray[· {row['hop']} #{row['visit']}, {row['model'] or 'model not known'}, "
        f"{row['started_at']:%Y-%m-%d %H:%M:%S} UTC, trajectory `{row['trace_id'][: id_digits([row['trace_id']])]}`]"
    )
    columns = st.columns(5, border=True)
    columns[0].metric("First token (TTFT)", seconds(row["ttft_s"]))
    what = "A chunk every" if counted.in_chunks(row) else "A token every (TPOT)"
    columns[1].metric(what, seconds(row["tpot_s"]))
    longest_us = max(row["itl_us"] or [], default=None)
    columns[2].metric("Longest gap", "-" if longest_us is None else seconds(longest_us / 1e6))
    columns[3].metric("Tokens (N)", counted.tokens(row))
    columns[4].metric("The reader's own time", seconds(row["consumer_s"]))
    pace = float(str(st.session_state.get(link.PACE) or 12))
    st.altair_chart(token_timeline(row, pace).properties(description=f"Tokens over time of stream {row['span_id']}"))
    st.caption(
        f"Steps: tokens as they came. Dashed: a reader of {pace:g} tokens a second who begins with the first; where "
        "the steps run under the line, the reader waits. Red: gaps past a second and ten times the stream's median."
    )
