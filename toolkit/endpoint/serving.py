"""The endpoint on a socket: for the command line, on a thread for tests, in a process of its own for the demo."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from hopbudget import listening
from hopbudget.errors import Exit, UserError

if TYPE_CHECKING:
    import uvicorn

SHUTDOWN_S: Final = 1
"""How long open streams may still run once the server is told to stop."""
READY_S: Final = 20.0
LISTENING: Final = "listening on "


def serve(port: int, host: str = "127.0.0.1", *, seed: int = 0, on_ready: Callable[[str], None]) -> None:
    """Serve until Ctrl-C or SIGTERM; `on_ready` gets the base address. Port 0 picks a free one.

    Raises UserError when the port can't be had (exit 4) or is no port (exit 2).
    """
    with listening.listen(host, port) as listener:
        listening.run_until_signal(_server(seed, lambda: on_ready(listening.address(listener))), listener)


@contextmanager
def running(*, seed: int = 0) -> Iterator[str]:
    """The endpoint on a thread of this process and a free port; gives the base address, and ends with the block."""
    with listening.listen("127.0.0.1", 0) as listener:
        ready = threading.Event()
        server = _server(seed, ready.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="hopbudget-endpoint")
        thread.start()
        try:
            if not ready.wait(READY_S):
                raise UserError(f"The simulated endpoint did not start within {READY_S:.0f} s.", Exit.ENVIRONMENT)
            yield listening.address(listener)
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def running_apart(*, seed: int = 0) -> Iterator[str]:
    """As `running`, in a process of its own, so that client and server don't share an interpreter's time.

    The process ends with the block, and by itself should this one die: it watches its standard input.
    """
    command = [sys.executable, "-m", "hopbudget.endpoint", str(seed)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        line = child.stdout.readline()
        if not line.startswith(LISTENING):
            raise UserError("The simulated endpoint did not start; its own message stands above.", Exit.ENVIRONMENT)
        yield line.removeprefix(LISTENING).strip()
    finally:
        child.stdin.close()
        child.stdout.close()
        try:
            child.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def serve_until_input_ends(seed: int) -> None:
    """Serve on a free port, say where on standard output, and stop when standard input closes."""

    def stop_with_input() -> None:
        sys.stdin.read()
        signal.raise_signal(signal.SIGTERM)

    threading.Thread(target=stop_with_input, daemon=True).start()
    serve(0, seed=seed, on_ready=lambda address: print(f"{LISTENING}{address}", flush=True))  # noqa: T201


def _server(seed: int, on_ready: Callable[[], None]) -> "uvicorn.Server":
    import uvicorn

    from hopbudget.endpoint.reset import ResettableProtocol
    from hopbudget.endpoint.server import application

    config = uvicorn.Config(
        application(seed=seed),
        http=ResettableProtocol,
        lifespan="off",
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    return listening.server(config, on_ready)
