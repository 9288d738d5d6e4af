"""The public names as a strict type checker sees them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_a_strict_type_checker_sees_signatures_and_return_types_kept(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    tree = tmp_path / "tree"
    subprocess.run([sys.executable, ROOT / "tools" / "link_tree.py", tree], check=True)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--explicit-package-bases", "--cache-dir", tmp_path / "cache",
         "--config-file", os.devnull, ROOT / "tests" / "typing" / "api.py"],
        env={**os.environ, "MYPYPATH": str(tree)}, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
