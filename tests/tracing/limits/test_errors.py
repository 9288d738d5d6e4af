"""The exceptions: one family, each a sentence, and whole after a trip to another process."""

import pickle

import pytest

import hopbudget as hb

LEAVES = [hb.FirstTokenTimeout, hb.StallTimeout, hb.CompletionTimeout, hb.HopRefused, hb.TrajectoryAborted]


@pytest.mark.parametrize("cls", LEAVES)
def test_all_are_one_family_of_time_outs(cls: type[hb.DeadlineExceeded]) -> None:
    assert issubclass(cls, hb.DeadlineExceeded)
    assert issubclass(cls, TimeoutError)


def test_it_comes_whole_from_another_process() -> None:
    error = hb.StallTimeout("stall", "answer", 2.1, 2.0, cause_so_far="3 chunks had come", late_s=0.1, client_lag=True)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_a_refusal_does_too() -> None:
    again = pickle.loads(pickle.dumps(hb.HopRefused("deadline", "answer", 2.5, 0.5, needed_s=2.0)))
    assert str(again) == "hop 'answer' was not sent: 0.50 s are left, and it needs 2.00 s"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (hb.FirstTokenTimeout("first_token", "a", 0.8, 0.8), "hop 'a': no token within 0.80 s of the request"),
        (hb.StallTimeout("stall", "a", 2.0, 2.0), "hop 'a': no further token within 2.00 s"),
        (hb.CompletionTimeout("completion", "a", 9.0, 9.0), "hop 'a': not complete within 9.00 s"),
        (
            hb.CompletionTimeout("completion", "a", 3.0, 3.0, capped=True),
            "the trajectory's deadline of 3.00 s fell in hop 'a'",
        ),
    ],
)
def test_each_says_what_happened(error: Exception, sentence: str) -> None:
    assert str(error) == sentence
