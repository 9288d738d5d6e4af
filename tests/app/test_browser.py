"""The pages in a real browser: served, walked through, with nothing said to the console or fetched from elsewhere."""

import importlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hopbudget.demo import sample
from hopbudget.plans.files import read
from hopbudget.store.duck import Store

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

from selenium.common.exceptions import StaleElementReferenceException  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
PATIENCE_S = 90
CHARTS = {"overview": 5, "breaches": 5, "streams": 5, "budgets": 4}
FIGURES = '[data-testid="stMetricValue"]'
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--window-size=1280,1000"),
)
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not both installed")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Three hundred trajectories of the sample agents, and a configuration beside them."""
    recorded, path = tmp_path / "runs.jsonl", tmp_path / "traces.duckdb"
    recorded.write_bytes(b"".join(sample.lines(sample.runs(300, 1_767_225_600.0))))
    Store(path).import_paths([recorded])
    objective = '{metric = "trajectory_duration", percentile = 90, limit = "11s"}'
    (tmp_path / "hopbudget.toml").write_text(f"[workloads.research]\nobjectives = [{objective}]\n")
    return path


@pytest.fixture
def address(store: Path, page: Path, tmp_path: Path) -> Iterator[str]:
    """The page, served as `hopbudget app` serves it."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "streamlit", "run", str(page), "--server.headless", "true"),
        *("--server.address", "127.0.0.1", "--server.port", str(port)),
    ]
    log = (tmp_path / "server.log").open("w")
    served = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=os.environ | {"HOPBUDGET_STORE": str(store)},
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        WebDriverWait(served, PATIENCE_S, ignored_exceptions=[OSError]).until(lambda _: healthy(served, port))
        yield f"http://127.0.0.1:{port}/"
    finally:
        served.terminate()
        served.wait(timeout=30)
        log.close()


def healthy(served: "subprocess.Popen[bytes]", port: int) -> bool:
    assert served.poll() is None, "the server ended"
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5) as answer:
        return bool(answer.status == 200)


@pytest.fixture
def downloads(tmp_path: Path) -> Path:
    folder = tmp_path / "downloads"
    folder.mkdir()
    return folder


@pytest.fixture
def browser(downloads: Path) -> Iterator[Any]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driven = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        try:
            yield driven
        finally:
            driven.quit()


def drawn(browser: Any, page: str) -> bool:
    """Whether the script has run to its end and every chart of the page stands."""
    if page != "overview" and f"page={page}" not in browser.current_url:
        return False
    app = browser.find_elements(By.CSS_SELECTOR, '[data-testid="stApp"]')
    settled = bool(app) and app[0].get_attribute("data-test-script-state") == "notRunning"
    charts = browser.find_elements(By.CSS_SELECTOR, '[data-testid="stVegaLiteChart"]')
    enough = settled and len(charts) >= CHARTS[page]
    return enough and all(c.find_elements(By.CSS_SELECTOR, "svg.marks") for c in charts)


def texts(browser: Any, selector: str) -> list[str]:
    return [found.text for found in browser.find_elements(By.CSS_SELECTOR, selector)]


def until(browser: Any, condition: Callable[[Any], Any]) -> Any:
    waiting = WebDriverWait(browser, PATIENCE_S, ignored_exceptions=[StaleElementReferenceException])
    return waiting.until(condition)


def requests(browser: Any) -> set[str]:
    """Every address that the page asked for."""
    asked = set()
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        of_a_page = message["params"].get("documentURL", "").startswith("http")  # not the browser's own new tab
        if message["method"] == "Network.requestWillBeSent" and of_a_page:
            asked.add(message["params"]["request"]["url"])
        elif message["method"] == "Network.webSocketCreated":
            asked.add(message["params"]["url"])
    return asked


def open_page(browser: Any, name: str) -> None:
    """Open a page by its name above, as a person would."""
    names = browser.find_elements(By.CSS_SELECTOR, ".st-key-page button")
    next(found for found in names if name in found.text).click()
    until(browser, lambda b: drawn(b, name.lower()))


def nudge(browser: Any, slider: str, page: str) -> None:
    """One step to the left on a slider, by keyboard; returns when the figures have changed."""
    before = texts(browser, FIGURES)
    browser.find_element(By.CSS_SELECTOR, f'.st-key-{slider} input[type="range"]').send_keys(Keys.ARROW_LEFT)
    until(browser, lambda b: drawn(b, page) and texts(b, FIGURES) != before)


def select_row(browser: Any, key: str, row: int) -> None:
    """Click a row's box in a table, which is one canvas."""
    canvas = browser.find_element(By.CSS_SELECTOR, f'.st-key-{key} [data-testid="stDataFrame"] canvas')
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    box = canvas.size
    to_box = (18 - box["width"] // 2, 36 + 35 * row + 17 - box["height"] // 2)
    ActionChains(browser).move_to_element_with_offset(canvas, *to_box).click().perform()


def test_every_page_is_walked_in_a_real_browser(address: str, browser: Any, downloads: Path) -> None:
    browser.get(address)
    until(browser, lambda b: drawn(b, "overview"))
    whole = texts(browser, '[data-testid="stApp"]')[0]
    assert "Breach" in whole or "Met" in whole

    before = texts(browser, FIGURES)
    only = browser.find_element(By.CSS_SELECTOR, ".st-key-where input")
    only.send_keys("app.region=eu", Keys.ENTER, Keys.ESCAPE)
    until(browser, lambda b: "where=" in b.current_url and drawn(b, "overview") and texts(b, FIGURES) != before)

    open_page(browser, "Breaches")
    assert "where=" in browser.current_url
    nudge(browser, "deadline", "breaches")
    link = browser.current_url
    select_row(browser, "listed", 1)
    until(browser, lambda b: b.current_url != link and drawn(b, "breaches"))
    figures = texts(browser, FIGURES)
    browser.get(browser.current_url)
    until(browser, lambda b: drawn(b, "breaches") and texts(b, FIGURES) == figures)

    open_page(browser, "Streams")
    nudge(browser, "pace", "streams")

    open_page(browser, "Budgets")
    assert "deadline=" in browser.current_url
    nudge(browser, "deadline", "budgets")
    browser.find_element(By.CSS_SELECTOR, ".st-key-download-plan button").click()
    until(browser, lambda _: (downloads / "plan.toml").exists())
    plan = read(downloads / "plan.toml")
    given_s = sum(slot["budget_s"] for slot in plan["slots"]) + plan["work_s"] + plan["stream"]["budget_s"]
    assert given_s == pytest.approx(plan["deadline_s"], abs=1e-4)

    assert texts(browser, '[data-testid="stException"]') == []
    said = [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]
    assert said == []
    assert {
        url
        for url in requests(browser)
        if not url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:"))
    } == set()


def test_a_page_without_a_chart_is_taken_once_it_has_come_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    driving, screenshots = importlib.import_module("driving"), importlib.import_module("screenshots")
    profile = tmp_path / "profile"
    with driving.served("nowhere.duckdb", tmp_path) as (address, _), driving.browser(profile) as driven:
        taken = screenshots.taken(driven, f"{address}?page=streams", "light")
        assert "Nothing recorded yet" in driven.page_source
    assert taken.height > 200
