"""The `report` command: numbers from the store, drawn or as JSON."""

from hopbudget.errors import Exit
from hopbudget.render import base
from hopbudget.render import report as draw
from hopbudget.reports import costing
from hopbudget.reports.reading import Selection
from hopbudget.store import queries, servers
from hopbudget.store.costs import charged, charged_by
from hopbudget.store.deadlines import held
from hopbudget.store.sampled import sampled
from hopbudget.store.waiting import still_waiting
from hopbudget.store.worked import worked


def report(selection: Selection, *, by: str | None, as_json: bool) -> int:
    """Print the report; returns the exit code."""
    priced = costing.prices()
    with selection.open() as (con, where):
        numbers = queries.report(con, where)
        numbers["workloads"] = dict(queries.workloads(con, where))
        groups = queries.report_by(con, where, by) if by else None
        spent_by = charged_by(con, where, by) if by and priced is not None else {}
        dropped = queries.drops(con)
        numbers["sampling"] = sampled(con, where)
        numbers["servers"] = servers.over_many(con, where)
        numbers["deadlines"] = held(con, where)
        numbers["works"] = worked(con, where)
        numbers["still_waiting"] = still_waiting(con, where)
        spent = charged(con, where) if priced is not None else []
    numbers["cost"] = costing.costs(spent, priced) if priced is not None else None
    for name, group in (groups or {}).items():
        group["cost"] = costing.costs(spent_by.get(name, []), priced) if priced is not None else None
    numbers["spool"] = {"dropped": sum(dropped.values()), "pending": selection.pending_spans()}
    if as_json:
        base.print_json(numbers | ({"by": groups} if groups is not None else {}))
        return Exit.DONE
    out = base.console()
    if groups is not None and by is not None:
        draw.workloads(out, numbers["workloads"])
        draw.by_group(out, groups, by)
    else:
        draw.report(out, numbers, selection.heading)
    return Exit.DONE
