"""The `app` command: Streamlit on a free loopback port, pointed at a store."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from hopbudget.children import exit_code
from hopbudget.errors import Exit, UserError

_LOOPBACK = "127.0.0.1"


def open_app(store: Path, port: int) -> int:
    """Serve the app until interrupted; returns the exit code. Raises UserError for a port in use."""
    if importlib.util.find_spec("streamlit") is None:
        raise ModuleNotFoundError("streamlit is not installed", name="streamlit")
    _check_port(port)
    page = importlib.util.find_spec("hopbudget.app.main")
    assert page is not None and page.origin is not None
    command = [
        *(sys.executable, "-m", "streamlit", "run", page.origin),
        *("--server.address", _LOOPBACK, "--server.port", str(port)),
        *("--browser.gatherUsageStats", "false", "--server.fileWatcherType", "none"),
    ]
    if not sys.stdout.isatty():
        command += ["--server.headless", "true"]
    served: subprocess.Popen[bytes] | None = None
    told: list[int] = []

    def end(number: int, _frame: object) -> None:
        told.append(number)
        if served is not None:
            served.terminate()

    signal.signal(signal.SIGTERM, end)
    served = subprocess.Popen(command, env=os.environ | {"HOPBUDGET_STORE": str(store.resolve())})
    if told:
        served.terminate()
    try:
        code = exit_code(served)
    except KeyboardInterrupt:
        served.wait()
        return Exit.DONE
    if told:  # as the shell says it of us, in whatever way the server then ended
        return 128 + told[0]
    return 128 - code if code < 0 else code


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_LOOPBACK, port))
        except OSError as error:
            raise UserError(
                f"Port {port} is in use. Choose another with --port, for instance --port {port + 1}.",
                Exit.ENVIRONMENT,
            ) from error
