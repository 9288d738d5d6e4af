"""What `opentelemetry-instrument` calls, whether or not a program is traced."""

import os
import subprocess
import sys
from pathlib import Path

from hopbudget.store.duck import Store
from hopbudget.store.spool import spool_folder

SCRIPT = """
import sys
from hopbudget.preinstrument import begin
begin()
print("hopbudget.recording.launched" in sys.modules, "opentelemetry.sdk" in sys.modules)
"""
TRACED = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
from hopbudget.preinstrument import begin
begin()
import hopbudget as hb
with hb.trajectory("agent"), hb.hop("ask"):
    pass
"""


def run(script: str, **variables: str) -> str:
    environment = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_where_nothing_is_traced_nothing_is_loaded() -> None:
    assert run(SCRIPT).split() == ["False", "False"]


def test_the_provider_that_was_set_before_feeds_the_store(tmp_path: Path) -> None:
    store = tmp_path / "traces.duckdb"
    run(TRACED, HOPBUDGET_TRACE_STORE=str(store))
    assert spool_folder(store).is_dir()
    counts = Store(store).drain()
    assert (counts.trajectories, counts.hops) == (1, 1)
