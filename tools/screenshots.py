"""Take docs/img/app-*.png: every page of the app in light and in dark, on sample data or on a store given."""

import argparse
import io
import tempfile
from pathlib import Path
from typing import Any

from driving import PATIENCE_S, browser, served
from PIL import Image
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from hopbudget.demo import sample
from hopbudget.store.duck import Store

ROOT = Path(__file__).resolve().parent.parent
WIDTH, COLOURS = 1280, 256
MOST_PX = 6000
UNTIL_S = 1_767_225_600.0
ENDED = '[data-testid="stApp"][data-test-script-state="notRunning"]'
SOMETHING = '[data-testid="stMainBlockContainer"] [data-testid="stElementContainer"]'
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, help="take them from this store instead of sample data")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "img")
    parser.add_argument("--page", choices=PAGES, action="append", help="only this one; repeatable")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        store = given.store.resolve() if given.store else sample_store(Path(scratch))
        profile = Path(scratch) / "profile"
        # A picture shows the store as a person would type it.
        with served(store.name, store.parent) as (address, _), browser(profile, "--hide-scrollbars") as driven:
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


def taken(driven: Any, link: str, scheme: str) -> Image.Image:
    """The whole page in a colour scheme, once the script has come to its end and nothing moves any more."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driven.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": WIDTH, "height": MOST_PX, "deviceScaleFactor": 1, "mobile": False}
    driven.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driven.get(link)
    heights: list[int] = []

    def stands_still(browser: Any) -> bool:
        if not browser.find_elements(By.CSS_SELECTOR, ENDED) or not browser.find_elements(By.CSS_SELECTOR, SOMETHING):
            return False
        charts = browser.find_elements(By.CSS_SELECTOR, '[data-testid="stVegaLiteChart"]')
        if not all(chart.find_elements(By.CSS_SELECTOR, "svg.marks") for chart in charts):
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
