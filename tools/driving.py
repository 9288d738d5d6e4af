"""The app on a free port and a headless Chromium to look at it with: for pictures and for measurements."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE_S = 120
_APP = Path(__file__).resolve().parent.parent / "app" / "main.py"
_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)


@contextmanager
def served(store: str | Path, folder: Path) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """The app's address and process, run in this folder on the store as it is named there."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(_APP), "--server.headless", "true"]
    command += ["--server.address", "127.0.0.1", "--server.port", str(port)]
    quiet = subprocess.DEVNULL
    environment = os.environ | {"HOPBUDGET_STORE": str(store)}
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=quiet, stderr=quiet)
    try:
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5):
                    break
            except OSError:
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/", process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def browser(profile: Path, *flags: str) -> Iterator[Any]:
    """A Chromium of its own profile, with more flags."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*_FLAGS, *flags, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    driven = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield driven
    finally:
        driven.quit()
