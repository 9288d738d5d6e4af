"""`demo --fault hang`: an endpoint that pings for ever, met with hopbudget and without; real client, real sockets."""

import os
import subprocess
import sys
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from hopbudget.demo.hang import CLIENT_TIMEOUT_S, held, left_alone
from hopbudget.demo.hang_agent import FIRST_TOKEN_S, HANGS
from hopbudget.demo.hang_board import DEADLINE_S, SHOWN_S, STEPS, Lane, Side, legend, panels
from hopbudget.store import queries
from hopbudget.store.duck import Store

DEMO = [sys.executable, "-m", "hopbudget", "demo", "--fault", "hang"]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run of it into a store."""
    folder = tmp_path_factory.mktemp("hang")
    (folder / "tmp").mkdir()
    # A proxy that is not there: the demo stays on this machine.
    environment = os.environ | {"TMPDIR": str(folder / "tmp"), "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": ""}
    done = subprocess.run(
        [*DEMO, "--store", "kept.duckdb"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return {"done": done, "folder": folder}


@pytest.fixture(scope="module")
def recorded(played: dict[str, Any]) -> dict[str, Any]:
    """The one trajectory that it leaves in the store."""
    with Store(played["folder"] / "kept.duckdb").reading() as con:
        (row,) = queries.trajectory_rows(con, queries.Where())
        return queries.trajectory(con, row["trace_id"])


def printed(renderable: Any) -> str:
    out = StringIO()
    Console(file=out, width=80, highlight=False).print(renderable)
    return out.getvalue()


# --- as a person runs it -------------------------------------------------------------------------------------


def test_it_ends_well_and_within_80_columns(played: dict[str, Any]) -> None:
    done = played["done"]
    assert (done.returncode, done.stderr) == (0, "")
    assert max(len(line.rstrip()) for line in done.stdout.splitlines() if "hopbudget explain" not in line) <= 80
    assert "\x1b" not in done.stdout


def test_one_side_still_waits_and_the_other_has_its_answer(played: dict[str, Any]) -> None:
    out = played["done"].stdout
    assert "still waiting after" in out
    assert "answered after" in out
    assert "never" in out
    assert "a ping, taken for a token" in out


def test_the_run_that_was_held_kept_its_deadline(recorded: dict[str, Any]) -> None:
    row = recorded["trajectory"]
    assert row["deadline_s"] == DEADLINE_S
    assert row["duration_s"] < DEADLINE_S
    assert (row["outcome"], row["intervened"]) == ("ok", True)


def test_the_hop_that_hung_was_answered_by_the_second_endpoint(recorded: dict[str, Any]) -> None:
    (hop,) = (hop for hop in recorded["hops"] if hop["hop"] == HANGS)
    assert (hop["outcome"], hop["attempts"]) == ("ok", 2)
    assert hop["ttft_s"] - hop["attempt_ttft_s"] >= FIRST_TOKEN_S
    assert [step["hop"] for step in recorded["hops"]] == ["plan", "read", "answer"]


def test_every_hop_knows_what_was_left_when_it_began(recorded: dict[str, Any]) -> None:
    left = [hop["remaining_s"] for hop in recorded["hops"]]
    assert left == sorted(left, reverse=True)
    assert all(0 < each <= DEADLINE_S for each in left)


def test_it_says_what_to_type_to_see_that_run(played: dict[str, Any], recorded: dict[str, Any]) -> None:
    assert f"explain kept.duckdb {recorded['trajectory']['trace_id'][:12]}" in played["done"].stdout


def test_nothing_is_left_in_the_folder_for_temporary_files(played: dict[str, Any]) -> None:
    assert list((played["folder"] / "tmp").iterdir()) == []


def test_a_number_of_trajectories_is_the_other_demos() -> None:
    done = subprocess.run([*DEMO, "--trajectories", "3"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "--trajectories" in done.stderr


# --- what its screens say ------------------------------------------------------------------------------------


@pytest.fixture
def side() -> Side:
    """A side whose hanging hop began after a second, half a second before the end."""
    seen = Side("a title", ended_s=1.5)
    seen.lanes = {step: Lane() for step in STEPS}
    seen.lanes["plan"] = Lane(began_s=0.0, first_s=0.5, ended_s=1.0)
    seen.now = HANGS
    seen.lanes[HANGS] = Lane(began_s=1.0, pieces=9, first_piece_s=1.25)
    return seen


def test_a_hop_is_drawn_as_far_as_it_has_come(side: Side) -> None:
    drawn = printed(panels([side]))
    plan, search, read, answer = (line for line in drawn.splitlines() if any(f"│ {step}" in line for step in STEPS))
    assert plan.count("░") == 2
    assert plan.count("█") == 2
    assert read.count("░") == 2
    assert not {"░", "█"} & set(search + answer)


def test_pings_are_counted_as_long_as_no_token_comes(side: Side) -> None:
    assert "9 pings, no token, 1.5 s" in printed(panels([side]))
    side.hear("word")
    assert "no token" not in printed(panels([side]))


def test_the_end_of_a_side_is_said(side: Side) -> None:
    side.leave("stopped")
    assert "still waiting after 1.5 s" in printed(panels([side]))
    side.leave("came")
    assert "answered after 1.5 s" in printed(panels([side]))


def test_both_panels_and_the_legend_fit_80_columns(side: Side) -> None:
    lines = [*printed(panels([side, side])).splitlines(), *printed(legend()).splitlines()]
    assert max(len(line.rstrip()) for line in lines) <= 80
    assert len(printed(legend()).splitlines()) == 1


def test_a_measurement_of_first_chunks_takes_the_first_ping(side: Side) -> None:
    assert side.first_chunk_s(HANGS) == 0.25
    assert side.first_chunk_s("answer") is None


def test_what_is_left_alone_is_said_with_its_pings(side: Side) -> None:
    words = left_alone(side)
    assert "9 pings in 500 ms and no token" in words
    assert f"time-out of {CLIENT_TIMEOUT_S:.0f} s" in words


def test_the_sentence_names_the_hop_the_phase_and_the_seconds() -> None:
    row = {"duration_s": 4.0, "deadline_s": 5.0, "outcome": "ok"}
    words = held(row, {"hop": "read", "ttft_s": 1.25, "attempt_ttft_s": 0.25, "attempts": 2})
    assert words.startswith("`read` waited for its first token: none after 1.00 s")
    assert "250 ms later" in words
    assert words.endswith("took 4.00 s of its 5.00 s.")


def test_where_no_endpoint_answered_the_sentence_says_so() -> None:
    row = {"duration_s": 5.0, "deadline_s": 5.0, "outcome": "timed_out"}
    words = held(row, {"hop": "read", "ttft_s": None, "attempt_ttft_s": None, "attempts": 2})
    assert "no first token from either endpoint" in words
    assert "timed_out" in words


def test_the_side_that_hangs_is_shown_past_the_deadline_and_past_its_time_out() -> None:
    assert SHOWN_S > DEADLINE_S > FIRST_TOKEN_S + CLIENT_TIMEOUT_S
