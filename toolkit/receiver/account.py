"""What the receiver has done since it started, for `/metrics` and `/healthz`."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Account:
    """Counts since the start. Changed on the event loop and by the drainer, each field by one of them."""

    requests: "Counter[int]" = field(default_factory=Counter)
    """By HTTP status."""
    bytes: int = 0
    """Of bodies, unzipped."""
    spans: int = 0
    """Taken: on disk before they were acknowledged."""
    rejected: int = 0
    dropped_content: int = 0
    drained: int = 0
    """Moved into the store by this receiver, duplicates left out."""
    duplicates: int = 0
    drain_failures: int = 0
    drain_problem: str = ""
    """Why the last drain failed; empty if it did not."""


def metrics(account: Account, *, waiting_files: int, waiting_spans: int) -> str:
    """The account as Prometheus reads it."""
    lines: list[str] = []

    def add(name: str, kind: str, meaning: str, *values: tuple[str, int]) -> None:
        lines.extend((f"# HELP hopbudget_receiver_{name} {meaning}", f"# TYPE hopbudget_receiver_{name} {kind}"))
        lines.extend(f"hopbudget_receiver_{name}{labels} {value}" for labels, value in values)

    codes = [(f'{{code="{code}"}}', count) for code, count in sorted(account.requests.items())]
    add("requests_total", "counter", "Export requests, by HTTP status.", *codes)
    add("bytes_total", "counter", "Bytes of request bodies, unzipped.", ("", account.bytes))
    add("spans_total", "counter", "Spans acknowledged, each on disk before.", ("", account.spans))
    add("rejected_spans_total", "counter", "Spans that could not be read.", ("", account.rejected))
    add("dropped_content_total", "counter", "Attributes with texts of people or models.", ("", account.dropped_content))
    add("drained_spans_total", "counter", "Spans moved into the store.", ("", account.drained))
    add("duplicate_spans_total", "counter", "Spans that the store held already.", ("", account.duplicates))
    add("drain_failures_total", "counter", "Drains that failed and are tried again.", ("", account.drain_failures))
    add("spool_files", "gauge", "Files that wait to be drained.", ("", waiting_files))
    add("spool_spans", "gauge", "Spans that wait to be drained.", ("", waiting_spans))
    return "\n".join(lines) + "\n"
