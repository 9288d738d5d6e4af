"""The page in a real browser: served, walked through, with nothing said to its console or fetched from elsewhere."""

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

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
PATIENCE_S = 90
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
def address(recorded_store: Path, page: Path, tmp_path: Path) -> Iterator[str]:
    """The page, served as `hopbudget app` serves it."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "streamlit", "run", str(page), "--server.headless", "true"),
        *("--server.address", "127.0.0.1", "--server.port", str(port)),
    ]
    log = (tmp_path / "server.log").open("w")
    served = subprocess.Popen(
        command, env=os.environ | {"HOPBUDGET_STORE": str(recorded_store)}, stdout=log, stderr=subprocess.STDOUT
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
def browser() -> Iterator[Any]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driven = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        try:
            yield driven
        finally:
            driven.quit()


def settled(browser: Any) -> bool:
    """Whether the script has run to its end."""
    app = browser.find_elements(By.CSS_SELECTOR, '[data-testid="stApp"]')
    return bool(app) and app[0].get_attribute("data-test-script-state") == "notRunning"


def texts(browser: Any, selector: str) -> list[str]:
    return [found.text for found in browser.find_elements(By.CSS_SELECTOR, selector)]


def until(browser: Any, condition: Callable[[Any], Any]) -> Any:
    from selenium.common.exceptions import StaleElementReferenceException

    waiting = WebDriverWait(browser, PATIENCE_S, ignored_exceptions=[StaleElementReferenceException])
    return waiting.until(condition)


def requests(browser: Any) -> set[str]:
    """Every address that the page asked for."""
    asked = set()
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent" and "documentURL" in message["params"]:
            if message["params"]["documentURL"].startswith("http"):
                asked.add(message["params"]["request"]["url"])
        elif message["method"] == "Network.webSocketCreated":
            asked.add(message["params"]["url"])
    return asked


def test_the_page_is_walked_in_a_real_browser(address: str, browser: Any) -> None:
    browser.get(address)
    until(browser, lambda b: settled(b) and len(b.find_elements(By.CSS_SELECTOR, "svg.marks")) >= 9)
    assert "research" in texts(browser, '[data-testid="stApp"]')[0]
    assert "deadline=p90" in browser.current_url

    budgets_before = texts(browser, "#allotted, [id='allotted']")
    handle = browser.find_element(By.CSS_SELECTOR, '[data-testid="stSlider"] [role="slider"]')
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", handle)
    handle.send_keys(Keys.ARROW_LEFT)
    until(browser, lambda b: "deadline=p90" not in b.current_url and settled(b))
    until(browser, lambda b: texts(b, "[id='allotted']") != budgets_before)

    chosen = browser.find_elements(By.CSS_SELECTOR, '.st-key-trace input')[0]
    chosen.send_keys("00000000000a", Keys.ENTER)
    until(browser, lambda b: "trace=0000000000000000000000000000000a" not in b.current_url or settled(b))

    until(browser, lambda b: settled(b) and len(b.find_elements(By.CSS_SELECTOR, "svg.marks")) >= 9)
    link = browser.current_url
    figures = texts(browser, '[data-testid="stMetricValue"]')
    browser.get(link)
    until(browser, lambda b: settled(b) and texts(b, '[data-testid="stMetricValue"]') == figures)

    assert texts(browser, '[data-testid="stException"]') == []
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")] == []
    elsewhere = {url for url in requests(browser) if "://127.0.0.1:" not in url and not url.startswith(("data:", "blob:"))}
    assert elsewhere == set()
