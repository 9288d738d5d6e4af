"""The screen of `hopbudget import --explain`: what each source told, and what is missing."""

import os
from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from hopbudget.render import base
from hopbudget.store.accounts import Account, OfFile, OfTrace
from hopbudget.units import count, plural

_FLAGS = {
    "holds_tools": "the length holds tools, agents or waiting too",
    "ttft_outside_span": "first-token time outside the span: not believed",
    "ttft_negative": "first-token time before the start: not believed",
    "ttft_unreadable": "first-token time that is no time: not believed",
    "events_dropped": "first-chunk event lost with others: no first-token time",
    "no_end": "the length reaches to the end of the run: it is not the call's",
    "server_longer": "the server took longer than its client waited",
}
_FILES_SHOWN = 40


def explain(out: Console, account: Account, files: Mapping[str, OfFile], shared: OfTrace) -> None:
    """Draw the account of an import, what each file held, and what traces held that several files share."""
    rows = base.table("source", "spans", "hops", "tools", "roots", title="What was told")
    unverified = False
    for name, source in account.ordered():
        known = source.as_json(name)["verified"]
        unverified = unverified or known is False
        numbers = (source.spans, source.hops, source.tools, source.trajectories)
        rows.add_row(base.name(name + (" *" if known is False else ""), 36), *map(count, numbers))
    out.print(rows)
    if unverified:
        out.print(Text("* read by its documentation; no recording was at hand to check it", style=base.QUIET))
    if account.stacked:
        out.print(
            f"{plural(account.stacked, 'hop was', 'hops were')} seen by several instrumentations, and stored once"
        )
    out.print()
    _first_tokens(out, account)
    _missing(out, account)
    _files(out, files, shared)


def _first_tokens(out: Console, account: Account) -> None:
    if not account.hops:
        return
    out.print(Text("Where first-token times came from", style="bold"))
    for name, source in account.ordered():
        for said_by, n in source.first_tokens.most_common():
            out.print(Text(f"  {count(n)} of {plural(source.hops, 'hop', 'hops')} of {name}: {said_by}"))
    if not any(source.first_tokens for _, source in account.ordered()):
        out.print("  from nowhere: no source told one")
    if account.first_chunks:
        words = (
            f"{plural(account.first_chunks, 'of them is', 'of them are')} to the first chunk: too short where that is"
        )
        out.print(Text(f"  {words} empty or only names a role", style=base.QUIET))
    out.print()


def _missing(out: Console, account: Account) -> None:
    missing = account.missing()
    if missing or any(source.flags for _, source in account.ordered()):
        out.print(Text("What is missing or doubtful, and what that costs", style="bold"))
    for what, n, of, costs in missing:
        some = "" if n == of else f" ({count(n)} of {count(of)})"
        out.print(Text(f"  {what}{some}: ").append(costs, style=base.QUIET))
    for name, source in account.ordered():
        for flag, n in source.flags.most_common():
            words = f"  {plural(n, 'hop', 'hops')} of {name}: "
            out.print(Text(words).append(_FLAGS.get(flag, flag), style=base.QUIET))
    out.print()


def _files(out: Console, files: Mapping[str, OfFile], shared: OfTrace) -> None:
    if len(files) < 2:
        for name, of in files.items():
            if not of.held.hops:
                out.print(Text(f"{name}: no model span in it", style=base.OVER))
        return
    rows = base.table("file", "spans", "hops", "tools", "roots", "", title="By file")
    rows.columns[-1].justify = "left"
    folder = os.path.commonpath([os.path.dirname(name) for name in files])  # noqa: PTH120
    for name, of in list(files.items())[:_FILES_SHOWN]:
        short = os.path.relpath(name, folder) if folder else name
        rows.add_row(base.name(short, 38), *map(count, of.held), _remark(of))
    if shared.spans:
        rows.add_row("in several files", *map(count, shared), "")
    out.print(rows)
    if len(files) > _FILES_SHOWN:
        out.print(f"... and {count(len(files) - _FILES_SHOWN)} more; --json lists them all.")


def _remark(of: OfFile) -> Text:
    if of.shared:
        return Text(f"and {plural(of.shared, 'trace', 'traces')} shared", style=base.QUIET)
    return Text("" if of.held.hops else "no model span", style=base.OVER)
