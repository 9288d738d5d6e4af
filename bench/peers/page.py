"""The results as the section of `docs/benchmarks.md` between two marks. Standard library only: the probe imports it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

BEGIN: Final = "<!-- peers -->"
END: Final = "<!-- /peers -->"
LATE_S: Final = 0.05
"""A span that ends within this of the last event ends with it."""
HOLD_S: Final = 0.25
"""A stream left alone is still held for this long, so that an end by collection differs from one at the last event."""
CHUNK_LIMIT: Final = 0.1
OFFICIAL: Final = "otel_genai"
FAILURES: Final = ("error in the stream", "cut off", "task cancelled")
EARLY: Final = ("break", "close()", "never read, dropped", "consumer's exception")
COMPLETE: Final = "read to the end"
WAYS: Final = (COMPLETE, *EARLY, *FAILURES)
NOT_REPORTED: Final = "not reported"

Found = Mapping[str, Any]


def section(results: Found) -> str:
    """The section's Markdown; `results` is what `python -m bench.peers` keeps in `build/peers/results.json`."""
    ran = [peer for peer in results["peers"] if "failed" not in peer]
    parts = [
        "## The same probe, put to other libraries",
        _asked(results),
        _summary(ran),
        "### First token",
        _first(ran),
        "### Ways out",
        _ways(ran),
        "### Contract",
        _contract(ran),
        "### Cost",
        _cost(ran),
        _notes(results["peers"]),
    ]
    return "\n\n".join(parts) + "\n"


def placed(page: str, text: str) -> str:
    """The page with `text` between its marks, which are put at the end of a page that has none."""
    block = f"{BEGIN}\n{text.rstrip()}\n{END}\n"
    before, begin, rest = page.partition(BEGIN)
    if not begin:
        return f"{page.rstrip()}\n\n{block}" if page.strip() else block
    _, _, after = rest.partition(END)
    return f"{before}{block}{after.lstrip(chr(10))}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _asked(results: Found) -> str:
    return (
        f"`make bench-peers` (`python -m bench.peers`), {results['date']}, Python {results['python']}, "
        f"{results['cores']} cores, {results['machine']}. Each library runs in an environment of its own, set up as "
        "its documentation says and with its defaults, against the simulated endpoint on this machine or against "
        "recorded answers in memory; what it exports is kept in memory. Packages are pinned in "
        "`bench/peers/catalogue.py`."
    )


# One line a library --------------------------------------------------------------------------------------------


def _summary(ran: Sequence[Found]) -> str:
    head = [
        "library", "version", "openai", "first token, s (0.60 is right)", "first chunk, s (0.10 is right)",
        "exactly one span", "failures marked", "early ends told apart", "ends with the last event",
        "tokens or text kept", "context left attached", "contract held", "added a chunk, µs", "added a call, µs",
    ]  # fmt: skip
    explained = (
        "A first *chunk* is what a library names so, a first *token* what it calls anything else. "
        "Of 15 ways out of a stream (7 sync, 8 async): in how many came *exactly one span*; were an error in the "
        "stream, a cut-off stream and a cancelled task *marked* as errors; did the record of an early end (break, "
        "close, never read, consumer's exception) differ in status, error or outcome from that of a complete read; did "
        f"the span *end* within {LATE_S:.2f} s of the last event; was what had been received *kept*, as a count of "
        "tokens or as text; was the library's span still the current one afterwards."
    )
    return f"{explained}\n\n{table(head, [_line(peer) for peer in ran])}"


def _line(peer: Found) -> list[str]:
    ways = _cases(peer)
    complete = {mode: _signature(case) for mode, name, case in ways if name == COMPLETE}
    failures = [case for _, name, case in ways if name in FAILURES]
    early = [(mode, case) for mode, name, case in ways if name in EARLY]
    received = [case for _, name, case in ways if name != "never read, dropped"]
    contract = peer.get("contract", {})
    return [
        peer["title"],
        peer["versions"].get(peer["package"], "?"),
        peer["versions"].get("openai", "?"),
        _first_numbers(peer, chunk=False),
        _first_numbers(peer, chunk=True),
        _share([case for _, _, case in ways], lambda case: len(case["records"]) == 1),
        _share(failures, _is_marked),
        _share(early, lambda pair: bool(pair[1]["records"]) and _signature(pair[1]) != complete.get(pair[0])),
        _share([case for _, _, case in ways], _ends_in_time),
        _share(received, lambda case: any(record["tokens"] or record["text_kept"] for record in case["records"])),
        str(sum(bool(case.get("left_attached")) for _, _, case in ways)),
        _share(list(contract.values()), lambda state: state == "held"),
        _micros(peer, "traces", "chunk_s"),
        _micros(peer, "traces", "call_s"),
    ]


def _cases(peer: Found) -> list[tuple[str, str, Found]]:
    ways = peer.get("ways_out", {})
    return [(mode, name, case) for mode in ("sync", "async") for name, case in ways.get(mode, {}).items()]


def _share(cases: Sequence[Any], test: Callable[[Any], bool]) -> str:
    return f"{sum(map(test, cases))}/{len(cases)}" if cases else NOT_REPORTED


def _signature(case: Found) -> list[tuple[Any, ...]]:
    return [(record["status"], bool(record["error"]), record["outcome"]) for record in case["records"]]


def _is_marked(case: Found) -> bool:
    return any(record["status"] == "error" or record["error"] for record in case["records"])


def _ends_in_time(case: Found) -> bool:
    return bool(case["records"]) and abs(_late_s(case)) <= LATE_S


def _late_s(case: Found) -> float:
    return max(float(record["late_s"]) for record in case["records"])


# The parts -----------------------------------------------------------------------------------------------------


def _first_values(peer: Found) -> dict[str, float]:
    found = peer.get("first_token", {})
    return {**found.get("reported", {}), **found.get("metrics", {})}


def _first_numbers(peer: Found, *, chunk: bool) -> str:
    of_kind = (value for name, value in _first_values(peer).items() if ("chunk" in name.lower()) == chunk)
    return ", ".join(sorted({f"{value:.2f}" for value in of_kind})) or NOT_REPORTED


def _first(ran: Sequence[Found]) -> str:
    rows = [
        [
            peer["title"],
            "<br>".join(f"`{name}`" for name in _first_values(peer)) or NOT_REPORTED,
            "<br>".join(f"{value:.3f}" for value in _first_values(peer).values()) or NOT_REPORTED,
            f"{peer['first_token']['true_s']:.3f}" if peer.get("first_token", {}).get("true_s") else NOT_REPORTED,
        ]
        for peer in ran
    ]
    return (
        "A role chunk is sent at 0.10 s, an empty chunk at 0.20 s, the first content at 0.60 s. Listed is whatever "
        "names a first token or chunk: attributes, the first of the events that mark chunks, metrics.\n\n"
        + table(["library", "name", "seconds", "first content as the caller saw it, s"], rows)
    )


def _ways(ran: Sequence[Found]) -> str:
    rows = [[peer["title"], *(_way(peer, way) for way in WAYS)] for peer in ran]
    explained = (
        f"Spans, status, and by how much the last span ended after the last event where that is more than {LATE_S:.2f} "
        "s. *Sync / async* where they differ; a task is cancelled in async code only. After `break` and in *never "
        f"read* the stream is held for another {HOLD_S} s. Then each stream is let go and Python's collector run, so a "
        "span that only that ends is late by the time it takes. What is late by less than the hold is tried again, and "
        "the soonest of three is shown: the machine may have been busy."
    )
    return f"{explained}\n\n{table(['library', *WAYS], rows)}"


def _way(peer: Found, way: str) -> str:
    cells = [_cell(peer["ways_out"][mode][way]) for mode in ("sync", "async") if way in peer["ways_out"].get(mode, {})]
    return cells[0] if len(set(cells)) == 1 else " / ".join(cells)


def _cell(case: Found) -> str:
    records = case["records"]
    if case.get("raised"):
        return f"raised {case['raised'].partition(':')[0]}, {len(records) or 'no'} spans"
    if not records:
        return "no span"
    states = {"error" if _is_marked(case) else records[-1]["outcome"] or records[-1]["status"]}
    late = "" if _ends_in_time(case) else f", {_late_s(case):+.2f} s"
    return f"{len(records)} {'/'.join(sorted(states))}{late}"


def _contract(ran: Sequence[Found]) -> str:
    rows = []
    for peer in ran:
        found: dict[str, str] = peer.get("contract", {})
        broken = [
            name if state == "broken" else f"{name} ({_short(state)})"
            for name, state in found.items()
            if state != "held"
        ]
        rows.append(
            [peer["title"], _share(list(found.values()), lambda state: state == "held"), "; ".join(broken) or "-"]
        )
    points = "; ".join(next((list(peer["contract"]) for peer in ran if peer.get("contract")), []))
    return f"Compared with the client alone: {points}.\n\n" + table(["library", "held", "did not hold"], rows)


def _short(state: str) -> str:
    return state.removeprefix("ValueError: ").removeprefix("AttributeError: ")


def _micros(peer: Found, mode: str, key: str) -> str:
    value = peer.get("cost", {}).get(mode, {}).get(key)
    return NOT_REPORTED if value is None else f"{value * 1e6:.2f}" if key == "chunk_s" else f"{value * 1e6:.0f}"


def _cost(ran: Sequence[Found]) -> str:
    rows = [
        [
            peer["title"],
            _micros(peer, "traces", "chunk_s"),
            _quartiles(peer, "traces"),
            _micros(peer, "metrics", "chunk_s") if "metrics" in peer.get("cost", {}) else "-",
            _micros(peer, "traces", "call_s"),
            _micros(peer, "metrics", "call_s") if "metrics" in peer.get("cost", {}) else "-",
        ]
        for peer in ran
    ]
    rounds = max((peer["cost"]["traces"]["rounds"] for peer in ran if peer.get("cost")), default=0)
    head = [
        "library", "a chunk, µs", "quartiles", "with metrics", "a call, µs", "with metrics",
    ]  # fmt: skip
    return (
        "What is added to the client alone, on chunks parsed beforehand and served from memory to a reader that looks "
        "at each text: a chunk is the difference between streams of 1,000 and of 10 tokens, each from its eighth chunk "
        "to its end; a call is one of 10 tokens, sync, read to its end. "
        "For each library the client alone runs in a second process of the same "
        "environment; all processes take one round each, turn about, and the figure is the median of "
        f"{rounds} rounds' differences, in processor time of the calling thread. No exporter works on that thread. "
        "*With metrics*: a MeterProvider is set too, where the library takes the global one.\n\n"
        + table(head, rows)
        + _against_official(ran)
    )


def _quartiles(peer: Found, mode: str) -> str:
    cost = peer.get("cost", {}).get(mode)
    return NOT_REPORTED if cost is None else f"{cost['chunk_low_s'] * 1e6:.2f} to {cost['chunk_high_s'] * 1e6:.2f}"


def _against_official(ran: Sequence[Found]) -> str:
    cost = {peer["name"]: peer.get("cost", {}) for peer in ran}
    said: list[str] = []
    missed: list[str] = []
    for mode, words in {"traces": "spans only", "metrics": "spans and metrics"}.items():
        ours, official = (cost.get(name, {}).get(mode) for name in ("hopbudget", OFFICIAL))
        if ours and official:
            low, middle, high = (ours[key] / official["chunk_s"] for key in ("chunk_low_s", "chunk_s", "chunk_high_s"))
            said.append(f"{middle:.3f} (our quartiles: {low:.3f} to {high:.3f}) with {words}")
            missed += [words] if middle > CHUNK_LIMIT else []
    if not said:
        return ""
    return (
        f"\n\nOurs adds to a chunk, as a ratio to OpenTelemetry's genai-openai (at most {CHUNK_LIMIT}): "
        f"{', '.join(said)}." + (f" **Missed:** {', '.join(missed)}." if missed else "")
    )


def _notes(peers: Sequence[Found]) -> str:
    lines = []
    for peer in peers:
        what = [peer[key] for key in ("remark", "variant") if peer.get(key)]
        if "failed" in peer:
            what.append(f"not run: {peer['failed']}")
        if what:
            lines.append(f"- {peer['title']}: {'; '.join(what)}.")
    return "\n".join(["Set-up, where there is something to say:", "", *lines]) if lines else ""
