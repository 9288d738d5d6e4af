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
        (visits(a=20.0, b=1.0), "21 more visits (20 `a`, 1 other)"),
        (visits(a=4.0, b=4.0, c=1.0, d=1.0), "10 more visits (4 `a`, 4 `b`, 2 others)"),
        (visits(a=20.0, b=-2.0), "18 more visits (20 `a`, 2 fewer others)"),
        (visits(a=-9.0, b=1.0), "8 fewer visits (9 `a`, 1 more other)"),
    ],
)
def test_visits_are_counted_where_there_is_a_whole_one(parts: list[Part], words: str) -> None:
    assert phrase("visits", parts) == words
