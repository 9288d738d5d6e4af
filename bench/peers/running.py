"""Running the probe in each environment: the checks one library after the other, the cost all in turns."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version as own_version
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.peers.catalogue import SILENT, Peer
from bench.peers.environments import BUILD, python_of

CHECKS_S: Final = 120
ROUNDS: Final = 15
CHUNKS_APART: Final = 990
"""The long call of the cost probe has so many chunks more than the short one."""

Times = dict[str, float]


def environment(peer: Peer) -> dict[str, str]:
    """The variables that a probe gets: nothing of this process's but what Python needs."""
    home = BUILD / peer.name / "home"
    home.mkdir(parents=True, exist_ok=True)
    return {"PATH": os.environ.get("PATH", ""), "HOME": str(home), "LANG": "C.UTF-8", **SILENT}


def command(peer: Peer, *arguments: str) -> list[str]:
    """The probe in the library's environment; `-P` keeps the working folder out of the modules' path."""
    return [str(python_of(peer)), "-P", "-m", "bench.peers.probe", *arguments]


def checks(peer: Peer, base_url: str) -> dict[str, Any]:
    """First token, ways out and contract of one library; `failed` says why there is nothing."""
    target = BUILD / peer.name / "checks.json"
    target.unlink(missing_ok=True)
    log = BUILD / peer.name / "checks.log"
    home = environment(peer)["HOME"]
    with log.open("w") as output:
        try:
            ended = subprocess.run(
                command(peer, "checks", peer.name, f"{base_url}/v1", str(target)),
                cwd=home,
                env=environment(peer),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=CHECKS_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            ended = -1
    if not target.is_file():
        lines = [line for line in log.read_text().splitlines() if line.strip()]
        return {"failed": f"ended with {ended}: {lines[-1] if lines else 'no output'}"}
    found: dict[str, Any] = json.loads(target.read_text())
    found["versions"] = versions(peer)
    return found


def versions(peer: Peer) -> dict[str, str]:
    """The versions of what is installed for the library."""
    if peer.package == "hopbudget":
        return {"hopbudget": own_version("hopbudget"), **_installed(peer, ["openai", "opentelemetry-sdk"])}
    return _installed(peer, [peer.package, "openai", "opentelemetry-sdk"])


def _installed(peer: Peer, names: Sequence[str]) -> dict[str, str]:
    script = (
        "import json, sys; from importlib.metadata import distributions; "
        "print(json.dumps({d.metadata['Name'].lower(): d.version for d in distributions()}))"
    )
    done = subprocess.run([python_of(peer), "-I", "-c", script], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return {name: found[name] for name in names if name in found}


@contextmanager
def cost_process(peer: Peer, mode: str) -> Iterator["subprocess.Popen[str] | None"]:
    """A cost probe that waits for rounds, in mode `bare`, `traces` or `metrics`; None if it did not come up."""
    name = "bare" if mode == "bare" else peer.name
    with (BUILD / peer.name / f"cost-{mode}.log").open("w") as errors:
        child = subprocess.Popen(
            command(peer, "cost", name, mode),
            cwd=environment(peer)["HOME"],
            env=environment(peer),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            yield child if child.stdout.readline().strip() == "ready" else None
        finally:
            child.stdin.close()
            child.stdout.close()
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _round(child: "subprocess.Popen[str]") -> Times:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("round\n")
    child.stdin.flush()
    answer: Times = json.loads(child.stdout.readline())
    return answer


def costs(peers: Sequence[Peer], rounds: int = ROUNDS) -> dict[str, dict[str, dict[str, float]]]:
    """Added seconds by a chunk and by a call, by library and mode, over the bare client of the same environment.

    All processes take one round each, turn about, so that all see the same machine; a library's figure is the median
    over rounds of its difference from its bare client in that round. One that fails on the way has none.
    """
    taken: dict[str, dict[str, list[Times]]] = {}
    with ExitStack() as stack:
        children: dict[str, dict[str, subprocess.Popen[str]]] = {}
        for peer in peers:
            modes = ["bare", "traces", *(["metrics"] if peer.metrics else [])]
            started = {mode: stack.enter_context(cost_process(peer, mode)) for mode in modes}
            up = {mode: child for mode, child in started.items() if child is not None}
            if len(up) == len(modes):
                children[peer.name] = up
        for number in range(rounds):
            for name, up in list(children.items()):
                order = list(up) if number % 2 else list(reversed(up))
                try:
                    answers = {mode: _round(up[mode]) for mode in order}
                except (json.JSONDecodeError, BrokenPipeError):
                    del children[name]
                    taken.pop(name, None)
                    continue
                for mode, answer in answers.items():
                    taken.setdefault(name, {}).setdefault(mode, []).append(answer)
    return {
        name: {mode: _cost(by_mode["bare"], found) for mode, found in by_mode.items() if mode != "bare"}
        for name, by_mode in taken.items()
    }


def _cost(bare: Sequence[Times], traced: Sequence[Times]) -> dict[str, float]:
    def chunk_s(found: Times) -> float:
        return (found["long_s"] - found["short_s"]) / CHUNKS_APART

    added = sorted(chunk_s(ours) - chunk_s(plain) for plain, ours in zip(bare, traced, strict=True))
    return {
        "chunk_s": median(added),
        "chunk_low_s": added[len(added) // 4],
        "chunk_high_s": added[(3 * len(added)) // 4],
        "call_s": median(ours["call_s"] - plain["call_s"] for plain, ours in zip(bare, traced, strict=True)),
        "bare_call_s": median(found["call_s"] for found in bare),
        "rounds": len(added),
    }


def write(path: Path, found: Any) -> None:
    """As JSON."""
    path.write_text(json.dumps(found, indent=1, default=str) + "\n")
