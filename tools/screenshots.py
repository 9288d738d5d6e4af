"""Take docs/img/app-*.png: every page of the app in light and in dark, on sample data or on a store given."""

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

from hopbudget import sample
from hopbudget.store.duck import Store

ROOT = Path(__file__).resolve().parent.parent
WIDTH, COLOURS, PATIENCE_S = 1280, 256, 120
MOST_PX = 6000
UNTIL_S = 1_767_225_600.0
PAGES = {
    "overview": "workload=research&by=service.version",
    "breaches": "workload=research&deadline=p90",
    "streams": "workload=research",
    "budgets": "workload=research&deadline=p90&place=answer&change=tokens&to=128",
}
CONFIG = """
[workloads.research]
deadline = "11s"

[[workloads.research.objectives]]
metric = "trajectory_duration"
percentile = 90
limit = "11s"

[[workloads.research.objectives]]
metric = "ttft"
percentile = 95
limit = "1s"
hop = "answer"

[[workloads.research.objectives]]
metric = "tpot"
percentile = 95
limit = "40ms"
hop = "answer"
"""
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    "--hide-scrollbars",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, help="take them from this store instead of sample data")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "img")
    parser.add_argument("--page", choices=PAGES, action="append", help="only this one; repeatable")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        store = given.store.resolve() if given.store else sample_store(Path(scratch))
        with served(store) as address, browser(Path(scratch) / "profile") as driven:
            for page in given.page or PAGES:
                for scheme in ("light", "dark"):
                    out = given.out / f"app-{page}-{scheme}.png"
                    picture = taken(driven, f"{address}?page={page}&{PAGES[page]}", scheme)
                    picture.quantize(COLOURS, kmeans=1, dither=Image.Dither.NONE).save(out, optimize=True)
                    print(f"{out} {picture.width}x{picture.height} {out.stat().st_size // 1024} KB")


def sample_store(folder: Path) -> Path:
    """The app's sample data, always of the same week, with objectives beside it."""
    recorded, store = folder / "sample.jsonl", folder / "traces.duckdb"
    recorded.write_bytes(b"".join(sample.lines(sample.runs(1200, UNTIL_S))))
    Store(store).import_paths([recorded])
    (folder / "hopbudget.toml").write_text(CONFIG)
    return store


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


def taken(driven: Any, link: str, scheme: str) -> Image.Image:
    """The whole page in a colour scheme, once every chart is drawn and nothing moves any more."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driven.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": WIDTH, "height": MOST_PX, "deviceScaleFactor": 1, "mobile": False}
    driven.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driven.get(link)
    heights: list[int] = []

    def stands_still(browser: Any) -> bool:
        app = browser.find_elements(By.CSS_SELECTOR, '[data-testid="stApp"]')
        charts = browser.find_elements(By.CSS_SELECTOR, '[data-testid="stVegaLiteChart"]')
        if not app or not charts or not all(c.find_elements(By.CSS_SELECTOR, "svg.marks") for c in charts):
            return False
        if browser.find_elements(By.CSS_SELECTOR, '[data-stale="true"], [data-testid="stSkeleton"]'):
            return False
        main = '[data-testid="stMainBlockContainer"]'
        heights.append(browser.execute_script(f"return document.querySelector('{main}').lastElementChild.offsetHeight"))
        return len(heights) > 6 and len(set(heights[-6:])) == 1

    WebDriverWait(driven, PATIENCE_S).until(stands_still)
    picture = Image.open(io.BytesIO(driven.get_screenshot_as_png())).convert("RGB")
    return picture.crop((0, 0, WIDTH, min(heights[-1] + 110, MOST_PX)))


if __name__ == "__main__":
    main()
