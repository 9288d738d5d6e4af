"""One virtual environment for each library, made once and made again when its requirements change."""

import subprocess
import sys
from pathlib import Path
from typing import Final

from bench.peers.catalogue import Peer

ROOT: Final = Path(__file__).resolve().parents[2]
BUILD: Final = ROOT / "build" / "peers"
_PIP: Final = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
_BUILD_S: Final = 900


class NotBuiltError(Exception):
    """The environment can't be made; the text says why, in a line."""


def python_of(peer: Peer) -> Path:
    """The interpreter of the library's environment."""
    return BUILD / peer.name / "venv" / "bin" / "python"


def build(peer: Peer) -> Path:
    """Make the environment unless it is made; returns its interpreter. Raises NotBuiltError with pip's reason."""
    folder = BUILD / peer.name
    made = folder / "made"
    wanted = "\n".join([sys.version, *peer.packages])
    if made.is_file() and made.read_text() == wanted:
        return python_of(peer)
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder / "venv"], check=True)
    try:
        done = subprocess.run(
            [python_of(peer), *_PIP, *peer.packages],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=_BUILD_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotBuiltError(f"pip took longer than {_BUILD_S} s") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise NotBuiltError(errors[0].removeprefix("ERROR: ") if errors else f"pip ended with {done.returncode}")
    # The probe is found last, so that no folder of ours shadows a module of theirs.
    site = next((folder / "venv" / "lib").glob("python*/site-packages"))
    (site / "bench_peers.pth").write_text(f"{ROOT}\n")
    made.write_text(wanted)
    return python_of(peer)
