"""The receiver's own schedule of draining."""

from hopbudget.receiver.account import Account
from hopbudget.receiver.draining import Drainer
from hopbudget.store.batch import Counts


def test_a_drain_is_counted() -> None:
    account = Account()
    Drainer(lambda: Counts(spans=3, duplicates=1), account, print).drain_once()
    assert (account.drained, account.duplicates, account.drain_problem) == (3, 1, "")


def test_a_failed_drain_is_told_once_and_tried_again() -> None:
    account, told, works = Account(), [], [False, False, True]

    def drain() -> Counts:
        if not works.pop(0):
            raise OSError("no room\nat all")
        return Counts(spans=1)

    drainer = Drainer(drain, account, told.append)
    assert [drainer.drain_once() for _ in range(3)] == [False, False, True]
    assert told == ["no room"]
    assert (account.drain_failures, account.drained, account.drain_problem) == (2, 1, "")


def test_stopping_drains_a_last_time() -> None:
    account = Account()
    drainer = Drainer(lambda: Counts(spans=1), account, print)
    drainer.start()
    drainer.stop()
    assert account.drained >= 1
