"""Take docs/img/app.png: the plan in light and a late trajectory in dark, from the demo's store or one given."""

import argparse
import io
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from hopbudget import budgets
from hopbudget.store import queries
from hopbudget.store.duck import Store

ROOT = Path(__file__).resolve().parent.parent
WIDTH, GAP, COLOURS, PATIENCE_S = 1060, 24, 160, 120
MOST_HOPS = 12
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    "--hide-scrollbars",
)
SECTION = """
const top = document.getElementById(arguments[0]).getBoundingClientRect().top - 8;
const next = document.getElementById(arguments[1]);
const main = document.querySelector('[data-testid="stMainBlockContainer"]').getBoundingClientRect();
return [top, (next ? next.getBoundingClientRect().top - 8 : main.bottom - 24)];
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, help="take them from this store instead of the demo's")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "img" / "app.png")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        store = given.store or demo_store(Path(scratch))
        with served(store) as address, browser(Path(scratch) / "profile") as driven:
            link = f"{address}?{late_trajectory(store)}"
            plan = section(driven, link, "light", "plan", "trajectory")
            trajectory = section(driven, link, "dark", "trajectory", "")
    beside(plan, trajectory, given.out)
    print(f"{given.out} {given.out.stat().st_size // 1024} KB")


def demo_store(folder: Path) -> Path:
    store = folder / "traces.duckdb"
    subprocess.run([sys.executable, "-m", "hopbudget", "demo", "--store", str(store)], check=True, stdout=sys.stderr)
    return store


def late_trajectory(store: Path) -> str:
    """The address of the slowest trajectory that missed p90 and fits on a picture."""
    with Store(store).reading() as con:
        where = queries.Where(workload=queries.workloads(con)[0][0])
        profile = queries.profile(con, where)
        late = queries.trajectory_rows(con, where, over_s=budgets.deadline_at(profile, 90), slowest=1000)
    small = [row for row in late if row["hop_count"] <= MOST_HOPS] or late
    return f"workload={where.workload}&trace={small[0]['trace_id']}"


@contextmanager
def served(store: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    page = str(ROOT / "app" / "main.py")
    command = [sys.executable, "-m", "streamlit", "run", page, "--server.headless", "true"]
    command += ["--server.address", "127.0.0.1", "--server.port", str(port)]
    quiet = subprocess.DEVNULL
    # A picture shows the store as a person would type it.
    names = {"HOPBUDGET_STORE": store.name}
    process = subprocess.Popen(command, cwd=store.parent, env=os.environ | names, stdout=quiet, stderr=quiet)
    try:
        health = f"http://127.0.0.1:{port}/_stcore/health"
        WebDriverWait(process, PATIENCE_S, ignored_exceptions=[OSError]).until(
            lambda _: urllib.request.urlopen(health, timeout=5).status == 200
        )
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def browser(profile: Path) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    driven = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield driven
    finally:
        driven.quit()


def section(driven: Any, link: str, scheme: str, begins: str, ends: str) -> Image.Image:
    """The stretch of the page between two anchors, in a colour scheme."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driven.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": WIDTH, "height": 5000, "deviceScaleFactor": 1, "mobile": False}
    driven.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driven.get(link)
    places: list[list[float]] = []

    def stands_still(browser: Any) -> bool:
        """Every chart is drawn, and nothing has moved since the look before."""
        app = browser.find_elements(By.CSS_SELECTOR, '[data-testid="stApp"][data-test-script-state="notRunning"]')
        charts = browser.find_elements(By.CSS_SELECTOR, '[data-testid="stVegaLiteChart"]')
        if not app or not charts or not all(c.find_elements(By.CSS_SELECTOR, "svg.marks") for c in charts):
            return False
        places.append(browser.execute_script(SECTION, begins, ends))
        return len(places) > 3 and places[-1] == places[-4]

    WebDriverWait(driven, PATIENCE_S).until(stands_still)
    top, bottom = places[-1]
    return Image.open(io.BytesIO(driven.get_screenshot_as_png())).convert("RGB").crop((0, int(top), WIDTH, int(bottom)))


def beside(left: Image.Image, right: Image.Image, out: Path) -> None:
    height = max(left.height, right.height)
    picture = Image.new("RGB", (2 * WIDTH + GAP, height), "white")
    picture.paste(left.getpixel((4, 4)), (0, 0, WIDTH, height))
    picture.paste(right.getpixel((4, 4)), (WIDTH + GAP, 0, 2 * WIDTH + GAP, height))
    picture.paste(left, (0, 0))
    picture.paste(right, (WIDTH + GAP, 0))
    out.parent.mkdir(parents=True, exist_ok=True)
    picture.quantize(COLOURS).save(out, optimize=True)


if __name__ == "__main__":
    main()
