"""`hopbudget trace`: an unchanged program, its exit code, its model calls and their trajectory."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hopbudget.errors import UserError
from hopbudget.recording import launching
from hopbudget.recording.scripts import decorated
from hopbudget.store.duck import Store

pytest.importorskip("openai")
pytest.importorskip("uvicorn")

AGENT = """
import os, sys
import openai

client = openai.OpenAI(base_url=os.environ["MODEL_URL"], api_key="k")
ask = dict(model="sim-small", messages=[{"role": "user", "content": "hi"}],
           extra_headers={"x-hopbudget-ttft": "0.01", "x-hopbudget-tpot": "0", "x-hopbudget-tokens": "3"})

def answer():
    client.chat.completions.create(**ask)
    for chunk in client.chat.completions.create(**ask, stream=True):
        pass
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    from hopbudget.endpoint import running

    with running() as url:
        yield f"{url}/v1"


class Traced(NamedTuple):
    code: int
    out: str
    err: str
    trajectories: list[dict[str, Any]]
    hops: list[dict[str, Any]]


Trace = Callable[..., Traced]


@pytest.fixture
def trace(address: str, tmp_path: Path) -> Trace:
    """Run a script, whose end is given, or a module under `hopbudget trace` with these options and arguments."""

    def run(
        end: str, *options: str, module: str | None = None, arguments: tuple[str, ...] = (), **variables: str
    ) -> Traced:
        script = tmp_path / "agent.py"
        script.write_text(AGENT + textwrap.dedent(end))
        done = subprocess.run(
            [sys.executable, "-m", "hopbudget", "trace", "--store", "s.duckdb", *options, "--", sys.executable,
             *(["agent.py"] if module is None else ["-m", module]), *arguments],
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=180,
            env={**os.environ, "MODEL_URL": address, **variables},
        )  # fmt: skip
        return Traced(done.returncode, done.stdout, done.stderr, *rows(tmp_path / "s.duckdb"))

    return run


def rows(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    with Store(path).reading() as con:
        found = []
        for table in ("trajectories", "hops"):
            cursor = con.execute(f"SELECT * FROM {table} ORDER BY started_at")
            names = [column[0] for column in cursor.description or ()]
            found.append([dict(zip(names, row, strict=True)) for row in cursor.fetchall()])
    return found[0], found[1]


def test_the_whole_run_of_a_script_is_its_trajectory_sub_processes_and_threads_with_it(trace: Trace) -> None:
    end = """
    import subprocess, threading
    if len(sys.argv) > 1:
        thread = threading.Thread(target=answer)
        thread.start()
        thread.join()
        subprocess.run([sys.executable, __file__])
        print(sys.argv[1:], __name__, os.path.basename(__file__), "sitecustomize" in sys.modules)
    else:
        answer()
    """
    found = trace(end, arguments=("--why", "me"))
    assert (found.code, found.out.split("\n")[0]) == (0, "['--why', 'me'] __main__ agent.py True")
    assert found.err == "hopbudget: 1 trajectory, 4 hops recorded; next: hopbudget report s.duckdb\n"
    (trajectory,) = found.trajectories
    assert (trajectory["workload"], trajectory["outcome"], trajectory["complete"]) == ("agent", "ok", True)
    assert [hop["streamed"] for hop in found.hops] == [False, True, False, True]
    assert found.hops[-1]["final"]


def test_what_somebody_looked_at_while_the_program_ran_counts_as_recorded(trace: Trace) -> None:
    end = """
    import subprocess, hopbudget
    answer()
    hopbudget.flush()
    looked = [sys.executable, "-m", "hopbudget", "report", "s.duckdb", "--json"]
    print(subprocess.run(looked, capture_output=True).returncode)
    """
    found = trace(end)
    assert (found.code, found.out.splitlines()[-1]) == (0, "0")
    assert found.err == "hopbudget: 1 trajectory, 2 hops recorded; next: hopbudget report s.duckdb\n"


def test_the_exit_code_is_the_programs_and_a_failing_one_a_failed_trajectory(trace: Trace) -> None:
    found = trace("answer()\nsys.exit(7)")
    assert found.code == 7
    assert found.trajectories[0]["outcome"] == "failed"
    assert len(found.hops) == 2


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_run_that_somebody_ended_is_cancelled_and_no_failure(trace: Trace, name: str) -> None:
    # Another thread may take the signal: the main one, which runs its handler, must not be in one long sleep then.
    ended = f"os.kill(os.getpid(), signal.{name})\nfor _ in range(1200):\n    time.sleep(0.05)"
    found = trace(f"answer()\nimport signal, time\n{ended}")
    assert found.code == 128 + signal.Signals[name]
    assert [row["outcome"] for row in found.trajectories] == ["cancelled"]


def test_a_deadline_that_a_whole_run_is_not_held_to_is_said_and_so_are_mistakes(trace: Trace) -> None:
    found = trace("answer()", HOPBUDGET_DEADLINE="0.001s", HOPBUDGET_ENFORCE="strict")
    assert found.code == 0
    assert "the whole run of agent is not held to the deadline" in found.err
    assert found.err.count("HOPBUDGET_ENFORCE: a mode is one of") == 1


def test_where_the_deadline_is_a_trajectorys_nothing_is_said_of_the_whole_run(trace: Trace) -> None:
    end = "import hopbudget as hb\nwith hb.trajectory('agent'):\n    answer()"
    found = trace(end, HOPBUDGET_DEADLINE="30s")
    assert [row["deadline_s"] for row in found.trajectories] == [30.0]
    assert "not held" not in found.err


def test_an_exception_is_shown_as_ever(trace: Trace) -> None:
    found = trace("answer()\nraise KeyError('mine')")
    assert found.code == 1
    assert "KeyError: 'mine'" in found.err
    assert "hopbudget" not in found.err.split("KeyError")[0]


def test_a_function_of_the_script_can_be_the_trajectory(trace: Trace) -> None:
    found = trace("answer()\nanswer()\nprint(answer.__name__, __name__)", "--trajectory", "agent:answer")
    assert found.out == "answer __main__\n"
    assert [row["workload"] for row in found.trajectories] == ["answer", "answer"]
    assert [row["hop_count"] for row in found.trajectories] == [2, 2]


def test_a_function_of_a_module_can_be_the_trajectory(trace: Trace, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("class Desk:\n    @staticmethod\n    def go(answer):\n        answer()\n")
    found = trace("import tools\ntools.Desk.go(answer)", "--trajectory", "tools:Desk.go")
    assert [row["workload"] for row in found.trajectories] == ["Desk.go"]
    assert len(found.hops) == 2


@pytest.mark.parametrize(
    ("module", "named"),
    [
        ("agent", "agent:Agent.run"),
        ("agent", "__main__:Agent.run"),
        ("pkg.agent", "pkg.agent:Agent.run"),
        ("pkg", "pkg:Agent.run"),
        ("pkg", "pkg.__main__:Agent.run"),
    ],
)
def test_a_function_of_a_module_that_is_run_can_be_the_trajectory(
    trace: Trace, tmp_path: Path, module: str, named: str
) -> None:
    end = """
    class Agent:
        def run(self):
            answer()

    if __name__ == "__main__":
        Agent().run()
        print(sys.argv[1:], os.path.basename(sys.argv[0]), __package__, __spec__.name, os.path.basename(__file__))
    """
    script = AGENT + textwrap.dedent(end)
    (tmp_path / "pkg").mkdir()
    for name in ("__init__", "agent", "__main__"):
        (tmp_path / "pkg" / f"{name}.py").write_text("" if name == "__init__" else script)
    found = trace(end, "--trajectory", named, module=module, arguments=("-x",))
    file = "__main__.py" if module == "pkg" else "agent.py"
    package = module.partition(".")[0] if module != "agent" else ""
    name = "pkg.__main__" if module == "pkg" else module
    assert (found.code, found.out) == (0, f"['-x'] {file} {package} {name} {file}\n"), found.err
    assert [(row["workload"], row["hop_count"]) for row in found.trajectories] == [("Agent.run", 2)]
    assert "no trajectory" not in found.err


def test_a_module_that_is_not_there_fails_as_ever(trace: Trace) -> None:
    found = trace("", "--trajectory", "nowhere:main", module="nowhere")
    assert found.code == 1
    assert "No module named nowhere" in found.err


def test_the_programs_own_tracer_provider_and_sitecustomize_are_used(trace: Trace, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import sys; sys.mine = True\n")
    end = """
    from opentelemetry import trace
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    provider = TracerProvider(resource=Resource.create({"service.name": "theirs"}))
    trace.set_tracer_provider(provider)
    assert trace.get_tracer_provider() is provider and sys.mine
    with trace.get_tracer("own").start_as_current_span("invoke_agent boss") as span:
        span.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "boss"})
        answer()
    """
    found = trace(end, PYTHONPATH=str(tmp_path / "site"))
    assert (found.code, found.err.count("\n")) == (0, 1), found.err
    (trajectory,) = found.trajectories
    assert (trajectory["workload"], trajectory["service"], trajectory["hop_count"]) == ("boss", "theirs", 2)


def test_a_program_that_starts_recording_itself_goes_on_as_written(trace: Trace) -> None:
    end = """
    import hopbudget as hb
    from opentelemetry import trace
    hb.init("s.duckdb")
    hb.instrument()
    assert hasattr(trace.get_tracer_provider(), "add_span_processor")
    with hb.trajectory("mine"):
        answer()
    """
    found = trace(end)
    assert found.code == 0, found.err
    assert [(row["workload"], row["hop_count"]) for row in found.trajectories] == [("mine", 2)]


def test_a_program_that_names_another_store_stays_whole_in_the_one_that_was_asked_for(
    trace: Trace, tmp_path: Path
) -> None:
    found = trace("answer()\nimport hopbudget as hb\nhb.init(store='other.duckdb', service='mine')\nanswer()")
    assert [(row["complete"], row["hop_count"]) for row in found.trajectories] == [(True, 4)]
    assert not list(tmp_path.glob("other*"))
    said, summary = found.err.splitlines()
    assert "and not into other.duckdb, which the program's init names" in said
    assert summary.startswith("hopbudget: 1 trajectory, 4 hops recorded")


def test_a_program_without_a_model_call_is_told_apart(trace: Trace) -> None:
    found = trace("pass")
    assert found.code == 0
    assert found.err.startswith("hopbudget: no model call was recorded")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "agents/research.py", "x.py"], "research"),
        (["/usr/bin/python3.12", "-u", "-W", "error", "a.py"], "a"),
        (["python", "-m", "pkg.agent", "-x"], "pkg.agent"),
        (["python", "-um", "pkg.agent"], "pkg.agent"),
        (["python", "-mpkg.agent"], "pkg.agent"),
        (["python"], "python"),
        (["uvicorn", "app:api"], "uvicorn"),
        (["python", "-c", "pass"], "pass"),
    ],
)
def test_a_run_is_named_by_its_script_or_command(command: list[str], name: str) -> None:
    assert launching.name_of(command) == name


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["python", "-u", "a.py", "a"], ["python", "-u", "-m", "hopbudget.recording.scripts", "a.py", "a"]),
        (["python", "b.py", "a.py"], ["python", "b.py", "a.py"]),
        (["python", "-m", "a", "-x"], ["python", "-m", "hopbudget.recording.scripts", "-m", "a", "-x"]),
        (
            ["python", "-W", "error", "-um", "a"],
            ["python", "-W", "error", "-u", "-m", "hopbudget.recording.scripts", "-m", "a"],
        ),
        (["python", "-m", "b", "a.py"], ["python", "-m", "b", "a.py"]),
        (["python", "-c", "a"], ["python", "-c", "a"]),
        (["uvicorn", "a.py"], ["uvicorn", "a.py"]),
    ],
)
def test_only_a_function_of_the_script_or_module_itself_needs_help(command: list[str], expected: list[str]) -> None:
    assert launching.with_trajectory(command, "a:main") == expected


@pytest.mark.parametrize("named", ["pkg:main", "pkg.__main__:main", "__main__:main"])
def test_a_package_is_run_by_its_main(named: str) -> None:
    helped = ["python", "-m", "hopbudget.recording.scripts", "-m", "pkg"]
    assert launching.with_trajectory(["python", "-m", "pkg"], named) == helped


def test_the_decorator_is_put_where_the_function_is_defined() -> None:
    source = b"class A:\n    @staticmethod\n    def go():\n        return 1 / 0\n"
    order: list[str] = []

    def note(function: Any) -> Any:
        order.append(function.__qualname__)
        return function

    names: dict[str, Any] = {"__hopbudget_trajectory__": note, "__name__": "x"}
    exec(decorated(source, "x.py", "A.go"), names)
    assert order == ["A.go"]
    with pytest.raises(ZeroDivisionError) as caught:
        names["A"].go()
    assert caught.traceback[-1].lineno == 3


def test_what_can_not_be_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no command 'nosuchthing'"):
        launching.trace_command(["nosuchthing"], tmp_path / "s.duckdb", None)
    with pytest.raises(UserError, match="wants module:function"):
        launching.trace_command(["python"], tmp_path / "s.duckdb", "main")


def test_a_file_that_is_no_store_is_noticed_before_the_program_runs(tmp_path: Path) -> None:
    ran, store = tmp_path / "ran", tmp_path / "notes.txt"
    store.write_text("no database")
    with pytest.raises(UserError, match="not a DuckDB file"):
        launching.trace_command([sys.executable, "-c", f"open({str(ran)!r}, 'w')"], store, None)
    assert not ran.exists()


def test_a_place_where_nothing_can_be_written_is_noticed_before_the_program_runs(tmp_path: Path) -> None:
    ran, store = tmp_path / "ran", tmp_path / "t.duckdb"
    (tmp_path / "t.duckdb.spool").write_text("a file, not a folder")
    with pytest.raises(UserError, match="Nothing can be recorded beside"):
        launching.trace_command([sys.executable, "-c", f"open({str(ran)!r}, 'w')"], store, None)
    assert not ran.exists()


@pytest.mark.parametrize("named", ["agent:forgotten", "nowhere:answer"])
def test_a_function_that_never_ran_is_said(trace: Trace, named: str) -> None:
    found = trace("answer()", "--trajectory", named)
    assert [row["workload"] for row in found.trajectories] == ["agent"]
    assert f"no trajectory of {named} was recorded" in found.err


def test_a_function_that_ran_before_but_not_this_time_is_said(trace: Trace) -> None:
    assert "no trajectory of" not in trace("answer()", "--trajectory", "agent:answer").err
    assert "no trajectory of agent:answer was recorded" in trace("", "--trajectory", "agent:answer").err
