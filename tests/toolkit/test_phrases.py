"""Causes in words: no count of nothing, and one of a thing is one."""

import pytest

from hopbudget.budgets import Part
from hopbudget.render.causes import phrase


def visits(**counts: float) -> list[Part]:
    return [Part("visits", name, count * 2.0, count) for name, count in counts.items()]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (visits(a=0.3, b=0.3), "1 more visit (`a`, `b`)"),
        (visits(a=0.2, b=0.2), "more visits (`a`, `b`)"),
        (visits(a=2.0, b=1.0), "3 more visits (2 `a`, 1 `b`)"),
        (visits(a=-1.0, b=-0.6), "2 fewer visits (1 `a`, 1 `b`)"),
        (visits(a=0.4), "more `a` visits"),
        (visits(a=1.0), "1 more `a` visit"),
    ],
)
def test_visits_are_counted_where_there_is_a_whole_one(parts: list[Part], words: str) -> None:
    assert phrase("visits", parts) == words
