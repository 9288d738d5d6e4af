"""The receiver on a socket, until it is told to stop; then what it took is moved into the store."""

import ipaddress
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from hopbudget import listening
from hopbudget.errors import UserError
from hopbudget.receiver.account import Account
from hopbudget.receiver.application import Rules, application
from hopbudget.receiver.draining import Drainer
from hopbudget.store.batch import Counts
from hopbudget.store.duck import Store
from hopbudget.store.open import check_fillable
from hopbudget.store.spool import Pending, Spool, files, spool_folder

SHUTDOWN_S: Final = 5
_NO_CAP: Final = 1 << 62


class SpoolFolder:
    """The spool of a store. What was acknowledged is never dropped for what comes: the rules bound what waits."""

    def __init__(self, store: Path) -> None:
        self._spool: Final = Spool(spool_folder(store), max_bytes=_NO_CAP, received=True)
        self._waiting: int | None = None

    def append(self, lines: Sequence[bytes], spans: int) -> None:
        """Write one file. Raises OSError."""
        self._spool.append(lines, spans)
        waiting = self._waiting
        if waiting is not None:
            self._waiting = waiting + sum(map(len, lines))

    def pending(self) -> Pending:
        """How many files and spans wait."""
        return self._spool.pending()

    def waiting_bytes(self) -> int:
        """The size of what waits, counted anew after each drain."""
        if self._waiting is None:
            self._waiting = sum(_size(file.path) for file in files(self._spool.folder))
        return self._waiting

    def drained(self) -> None:
        """Something has gone."""
        self._waiting = None


def serve(
    store: Path,
    port: int,
    host: str,
    rules: Rules,
    *,
    on_ready: Callable[[str], None],
    on_problem: Callable[[str], None],
) -> None:
    """Serve until Ctrl-C or SIGTERM. UserError for a host that others can reach without a token, or a taken port."""
    import uvicorn

    if rules.token is None and not _is_loopback(host):
        raise UserError(
            f"Others can reach {host}, so the receiver needs a token there: set HOPBUDGET_TOKEN, or stay on 127.0.0.1."
        )
    check_fillable(store)
    account = Account()
    folder = SpoolFolder(store)
    target = Store(store)

    def drain() -> Counts:
        try:
            counts = target.drain()
        finally:
            folder.drained()
        target.settle()
        return counts

    drainer = Drainer(drain, account, on_problem)
    config = uvicorn.Config(
        application(folder, account, rules),
        lifespan="off",
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    with listening.listen(host, port) as listener:
        running = listening.server(config, lambda: on_ready(listening.address(listener)))
        drainer.start()
        try:
            listening.run_until_signal(running, listener)
        finally:
            drainer.stop()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # drained meanwhile
        return 0
