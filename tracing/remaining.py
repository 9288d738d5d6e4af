"""The time that is left, as it is told to other services and processes, and to which of them.

A service is told a duration, so that no clocks need to agree. A process is told the wall time beside it: it runs on the
same machine, and starting it takes time that no duration would count.
"""

import math
import re
from collections.abc import Mapping, MutableMapping
from typing import Final, NamedTuple

from hopbudget.tracing import deadline, scope, terms
from hopbudget.tracing.clock import NANOSECONDS
from hopbudget.tracing.deadline import Deadline
from hopbudget.tracing.modes import Mode, is_mode

HEADER: Final = "hopbudget-remaining-ms"
"""Milliseconds that are left, rounded down, as a whole number; 0 where none are."""
VARIABLE: Final = "HOPBUDGET_REMAINING"
"""Milliseconds left, the wall time of that in nanoseconds, and the mode that the deadline is held in."""

_WHOLE: Final = re.compile(r"[0-9]{1,12}")
_DEFAULT_PORTS: Final = frozenset({80, 443})


def written(remaining_s: float) -> str | None:
    """What the header says; None where there is no deadline to tell of."""
    return None if not math.isfinite(remaining_s) else str(max(math.floor(remaining_s * 1000), 0))


def read(text: str) -> float | None:
    """Seconds that the header says are left; None where it is malformed."""
    text = text.strip()
    return int(text) / 1000 if _WHOLE.fullmatch(text) else None


# Services ----------------------------------------------------------------------------------------------------------


class Host(NamedTuple):
    """One entry of the allow-list: a host's name, or all below a domain, on every port or on one."""

    name: str
    below: bool = False
    port: int | None = None

    def allows(self, host: str, port: int | None) -> bool:
        """Whether a request to this host and port (None = the scheme's own) may be told."""
        if self.port is not None and port != self.port and not (port is None and self.port in _DEFAULT_PORTS):
            return False
        return host.endswith(self.name) if self.below else host == self.name


def host(text: str) -> Host:
    """An entry from its text: `api.internal`, `api.internal:8000`, `*.internal`, `[::1]:8000`.

    Raises ValueError for anything else, a URL or a lone `*` included.
    """
    match = _HOST.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f'name a host, as "api.internal", "api.internal:8000" or "*.internal", not {text!r}')
    name = match["six"] or match["bare"] or match["name"]
    return Host(name.rstrip("."), bool(match["below"]), int(match["port"]) if match["port"] else None)


_HOST: Final = re.compile(
    r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<below>\*(?=\.))?(?P<name>\.?[^\s:/*\[\]@?#.][^\s:/*\[\]@?#]*))(?::(?P<port>\d{1,5}))?"
    r"|(?P<bare>[0-9a-f]*:[0-9a-f:.]*:[0-9a-f:.]*)"
)


class _Allowed:
    """The hosts that may be told: those of the code, the environment and `hopbudget.toml`."""

    def __init__(self) -> None:
        self.by_code: tuple[Host, ...] = ()
        self._texts: tuple[str, ...] = ()
        self._by_settings: tuple[Host, ...] = ()

    def __contains__(self, place: tuple[str, int | None]) -> bool:
        texts = terms.hosts()
        if texts != self._texts:
            self._texts, self._by_settings = texts, tuple(_hosts(texts))
        name = place[0].lower().rstrip(".")
        return any(entry.allows(name, place[1]) for entry in self.by_code + self._by_settings)


def _hosts(texts: tuple[str, ...]) -> list[Host]:
    found = []
    for text in texts:
        try:
            found.append(host(text))
        except ValueError as error:
            terms.complain(f"propagate: {error}; it is left out")
    return found


_allowed: Final = _Allowed()


def propagate_to(*hosts: str) -> None:
    """Let requests to these hosts say how much time is left: `api.internal`, `api.internal:8000`, `*.internal`.

    They add to those of HOPBUDGET_PROPAGATE_TO and `hopbudget.toml`; no other host is told. Raises ValueError for what
    is no host.
    """
    _allowed.by_code += tuple(entry for entry in map(host, hosts) if entry not in _allowed.by_code)


def forget_hosts() -> None:
    """Take back every `propagate_to`."""
    _allowed.by_code = ()


def is_allowed(name: str, port: int | None = None) -> bool:
    """Whether this host may be told how much time is left; `port` None is the scheme's own."""
    return (name, port) in _allowed


def add_remaining(headers: MutableMapping[str, str], name: str, port: int | None = None) -> bool:
    """Say in a request's headers how much time is left, if its host may be told; returns whether that was added.

    A header that its sender set stays. Never raises.
    """
    try:
        running = deadline.current()
        if running is None or HEADER in headers or terms.off() or (name, port) not in _allowed:
            return False
        text = written(running.remaining_s())
        if text is None:
            return False
        headers[HEADER] = text
    except Exception:
        scope.recorder_failed()
        return False
    return True


# Processes ---------------------------------------------------------------------------------------------------------


def for_process() -> str | None:
    """What a sub-process is told; None where there is no deadline."""
    running = deadline.current()
    text = None if running is None or terms.off() else written(running.remaining_s())
    if running is None or text is None:
        return None
    mode = "observe" if running.terms is None else running.terms.mode
    return f"{text} {scope.setup.clock.wall_ns()} {mode}"


def of_process(variables: Mapping[str, str]) -> Deadline | None:
    """The deadline that this process was started with; None if there is none, or it can't be understood."""
    parts = variables.get(VARIABLE, "").split()
    if len(parts) != 3:
        return None
    left_s, mode = read(parts[0]), parts[2]
    if left_s is None or not parts[1].isdecimal() or not is_mode(mode):
        return None
    return _since(left_s, int(parts[1]), mode)


def _since(left_s: float, wall_ns: int, mode: Mode) -> Deadline:
    # A wall clock that was set back must not make time.
    gone_s = max(scope.setup.clock.wall_ns() - wall_ns, 0) / NANOSECONDS
    return Deadline(max(left_s - gone_s, 0.0), terms.Terms(left_s, mode))


def settle(variables: Mapping[str, str]) -> None:
    """What nothing encloses in this process keeps the deadline that the environment names, unless it is a server."""
    found = of_process(variables)
    if found is None:
        return
    from hopbudget.tracing.home import server_check

    serving = server_check()
    scope.setup.home_deadline = lambda: None if serving() else found
