"""A whole conversation as one trajectory: its requests one after another on one clock, without the person's time."""

from dataclasses import replace
from typing import Any

import numpy as np

from hopbudget.budgets.profile import Bools, Floats, Ints, Profile


def by_conversation(profile: Profile) -> Profile:
    """The profile with one trajectory a session; a trajectory without a session stays one of its own.

    Requests follow each other in the order in which they began, each starting when the one before it ended. Durations
    and work add up; the outcome, the run and the final stream are those of the last request. A conversation is
    complete when all its requests are, and intervened when any is.
    """
    t = profile.trajectories
    if not len(profile):
        return profile
    of_request, order = _conversations(profile)
    count = int(of_request.max()) + 1
    duration_s = np.nan_to_num(t.duration_s)
    last = np.empty(count, dtype=np.int64)
    last[of_request[order]] = order  # the later request overwrites the earlier
    offset = _elapsed_before(duration_s, of_request, order)
    complete = np.bincount(of_request, weights=~(t.complete & ~np.isnan(t.duration_s)), minlength=count) == 0
    joined = {name: getattr(t, name)[last] for name in t.__slots__} | {
        "started_at": _first_start(t.started_at, of_request, count),
        "duration_s": np.bincount(of_request, weights=duration_s, minlength=count),
        "work_s": np.bincount(of_request, weights=t.work_s, minlength=count),
        "answer_start_s": t.answer_start_s[last] + offset[last],
        "complete": complete,
        "intervened": np.bincount(of_request, weights=t.intervened, minlength=count) > 0,
    }
    place = np.empty(len(profile), dtype=np.int64)
    place[order] = np.arange(len(profile))
    hops = _moved(profile.hops, of_request, place, offset)
    is_last = np.zeros(len(profile), dtype=np.bool_)
    is_last[last] = True
    was_last: Bools = is_last[profile.hops.trajectory][_by_time(profile.hops, of_request, place)]
    return Profile(
        replace(t, **joined),
        replace(hops, final=hops.final & was_last, visit=_visits(hops)),
        _moved(profile.works, of_request, place, offset),
    )


def _conversations(profile: Profile) -> tuple[Ints, Ints]:
    """The conversation of each request, numbered by their first start; and the requests in order of both."""
    t = profile.trajectories
    rows = np.arange(len(profile))
    name = np.array([word or f"\0{row}" for row, word in zip(rows, t.session, strict=True)], dtype=object)
    _, code = np.unique(name.astype(str), return_inverse=True)
    first = _first_start(t.started_at, code, int(code.max()) + 1)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first, kind="stable")] = np.arange(len(first))
    of_request: Ints = number[code]
    return of_request, np.lexsort((rows, np.nan_to_num(t.started_at), of_request))


def _first_start(started_at: Floats, code: Ints, count: int) -> Floats:
    first = np.full(count, np.inf)
    np.fmin.at(first, code, started_at)
    return np.where(np.isfinite(first), first, np.nan)


def _elapsed_before(duration_s: Floats, of_request: Ints, order: Ints) -> Floats:
    """Seconds of the conversation before each request."""
    running = np.cumsum(duration_s[order]) - duration_s[order]
    group = of_request[order]
    starts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
    base = np.repeat(running[starts], np.diff(np.append(starts, len(group))))
    before = np.empty(len(order))
    before[order] = running - base
    return before


def _by_time(table: Any, of_request: Ints, place: Ints) -> Ints:
    rows = np.arange(len(table.trajectory))
    order: Ints = np.lexsort((rows, place[table.trajectory], of_request[table.trajectory]))
    return order


def _moved(table: Any, of_request: Ints, place: Ints, offset: Floats) -> Any:
    order = _by_time(table, of_request, place)
    columns = {name: getattr(table, name)[order] for name in table.__slots__}
    request = table.trajectory[order]
    columns["trajectory"] = of_request[request]
    columns["started_s"] = columns["started_s"] + offset[request]
    return type(table)(**columns)


def _visits(hops: Any) -> Ints:
    """The number of each hop among those of its name in the conversation."""
    _, name = np.unique(hops.hop.astype(str), return_inverse=True)
    key = hops.trajectory * (int(name.max()) + 1 if len(name) else 1) + name
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(ordered) else np.zeros(0, int)
    number = np.arange(len(ordered)) - np.repeat(starts, np.diff(np.append(starts, len(ordered))))
    visits = np.empty(len(ordered), dtype=np.int64)
    visits[order] = number + 1
    return visits
