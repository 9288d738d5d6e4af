"""`python -m bench.peers [NAME ...]`: build, probe, and write the section of `docs/benchmarks.md`.

With names only these libraries are probed anew, beside what `build/peers/results.json` has of the others.
"""

import datetime
import json
import os
import platform
import sys
from collections.abc import Sequence
from typing import Any

from bench.peers import page, running
from bench.peers.catalogue import PEERS, Peer
from bench.peers.environments import BUILD, ROOT, NotBuiltError, build
from hopbudget.endpoint.serving import running_apart

PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = BUILD / "results.json"


def say(text: str) -> None:
    """Progress, to a person."""
    print(f"peers: {text}", file=sys.stderr, flush=True)


def probe(peers: Sequence[Peer]) -> list[dict[str, Any]]:
    """Every library's results; one that can't be built or run has `failed` with the reason."""
    found: dict[str, dict[str, Any]] = {}
    built: list[Peer] = []
    with running_apart() as base_url:
        for peer in peers:
            say(f"{peer.title} ...")
            try:
                build(peer)
                built.append(peer)
                found[peer.name] = running.checks(peer, base_url)
            except NotBuiltError as reason:
                found[peer.name] = {"failed": str(reason)}
    say("cost, all in turns ...")
    costs = running.costs([peer for peer in built if "failed" not in found[peer.name]])
    described = {peer.name: {"name": peer.name, "title": peer.title, "package": peer.package} for peer in peers}
    return [
        {**described[peer.name], "remark": peer.remark, **found[peer.name], "cost": costs.get(peer.name, {})}
        for peer in peers
    ]


def main(wanted: Sequence[str]) -> None:
    """Probe the wanted libraries, all of them unless named, and write the page."""
    unknown = set(wanted) - {peer.name for peer in PEERS}
    if unknown:
        sys.exit(f"no library {', '.join(sorted(unknown))}; there are {', '.join(peer.name for peer in PEERS)}")
    peers = probe([peer for peer in PEERS if not wanted or peer.name in wanted])
    if wanted and RESULTS.is_file():
        new = {peer["name"]: peer for peer in peers}
        peers = [new.get(peer["name"], peer) for peer in json.loads(RESULTS.read_text())["peers"]]
    results = {
        "date": str(datetime.date.today()),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "peers": peers,
    }
    running.write(RESULTS, results)
    text = page.section(results)
    PAGE.write_text(page.placed(PAGE.read_text() if PAGE.is_file() else "", text))
    print(text)
    say(f"wrote {PAGE.relative_to(ROOT)} and {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
