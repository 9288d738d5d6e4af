"""Make the terminal pictures of the README from a fresh run of the demo: `make pictures`."""

import re
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from hopbudget.demo import agent, hang, showing
from hopbudget.render import base, causes
from hopbudget.reports.explaining import of_profile
from hopbudget.store import queries
from hopbudget.store.duck import Store

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "img"
FONT_FACE = re.compile(r"@font-face\s*\{.*?\}", re.DOTALL)


def console() -> Console:
    return base.Screen(width=base.WIDTH, record=True, force_terminal=True, color_system="truecolor")


def save(screen: Console, name: str, title: str) -> None:
    """Write the picture without the web fonts that rich would have it load."""
    picture = IMAGES / name
    screen.save_svg(str(picture), title=title)
    picture.write_text(FONT_FACE.sub("", picture.read_text()))


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "traces.duckdb"
        whole = console()
        showing.run(store, console=whole)
        save(whole, "demo.svg", "hopbudget demo")
        with Store(store).reading() as con:
            profile = queries.profile(con, queries.Where(workload=agent.WORKLOAD))
            short = {row["trace_id"] for row in queries.trajectory_rows(con, queries.Where()) if row["hop_count"] <= 11}
            slowest = max((row for row in of_profile(profile) if row.trace_id in short), key=lambda row: row.excess_s)
            detail = queries.trajectory(con, slowest.trace_id)
        one = console()
        one.print(Text(f"$ hopbudget explain {slowest.trace_id[:8]}", style="bold"))
        causes.one(one, detail, slowest)
        save(one, "explain.svg", "hopbudget explain")
    hanging = console()
    hang.run(None, console=hanging)
    save(hanging, "hang.svg", "hopbudget demo --fault hang")


if __name__ == "__main__":
    main()
