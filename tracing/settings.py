"""What `hopbudget.toml` and the environment say to a running agent: their runtime keys, as values.

A key that can't be understood is told of and left out; the others hold.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from hopbudget.tracing.modes import HopTerms, Mode, read_mode

T = TypeVar("T")
Tell = Callable[[str], None]

FILE: Final = "hopbudget.toml"
CONFIG: Final = "HOPBUDGET_CONFIG"
DEADLINE: Final = "HOPBUDGET_DEADLINE"
ENFORCE: Final = "HOPBUDGET_ENFORCE"
OFF: Final = "HOPBUDGET_OFF"
PLAN: Final = "HOPBUDGET_PLAN"
PROPAGATE_TO: Final = "HOPBUDGET_PROPAGATE_TO"

WORKLOAD_KEYS: Final = frozenset({"deadline", "enforce", "hops", "match", "max_steps", "objectives", "plan"})
"""All that a workload may have, also what is none of a running agent's business."""
HOP_KEYS: Final = frozenset({"completion", "enforce", "first_token", "silent_thinking", "stall"})

_UNITS: Final = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_DURATION: Final = r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(ms|s|min|m|h)\s*"
_TRUE: Final = frozenset({"1", "true", "yes", "on"})


class Workload(NamedTuple):
    """The runtime keys of one workload."""

    deadline_s: float | None = None
    mode: Mode | None = None
    plan: str | None = None
    max_steps: int | None = None
    hops: Mapping[str, HopTerms] = {}
    trajectory: str | None = None
    """The name of its trajectories, where that is not the workload's."""


NO_WORKLOAD: Final = Workload()


class Config(NamedTuple):
    """The runtime keys of one `hopbudget.toml`."""

    workloads: Mapping[str, Workload] = {}
    hosts: tuple[str, ...] = ()

    def workload(self, name: str) -> Workload:
        """What it says of a workload, or of a trajectory, of this name."""
        found = self.workloads.get(name)
        if found is None:
            found = next((w for w in self.workloads.values() if w.trajectory == name), NO_WORKLOAD)
        return found


NO_CONFIG: Final = Config()


class Environment(NamedTuple):
    """What the environment's variables say."""

    off: bool = False
    deadline_s: float | None = None
    mode: Mode | None = None
    plan: str | None = None
    config: str | None = None
    hosts: tuple[str, ...] = ()


def duration(value: object) -> float:
    """Seconds of "12s", "800ms", "2m", "1.5h". Raises ValueError for anything else, and for nothing or less."""
    match = re.fullmatch(_DURATION, value, re.ASCII) if isinstance(value, str) else None
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0.0 < seconds < math.inf:
        raise ValueError(f'a duration is a number above 0 with its unit, as "12s", "800ms" or "2m", not {value!r}')
    return seconds


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"this is a text, not {value!r}")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"this is a list of texts, not {value!r}")
    return tuple(_text(item) for item in value)


def _steps(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"this is a whole number above 0, not {value!r}")
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"this is true or false, not {value!r}")
    return value


class _Table:
    """A table, read key by key; what can't be understood is told and taken as absent."""

    def __init__(self, values: object, where: str, tell: Tell) -> None:
        self.where = where
        self.tell = tell
        self.values: Mapping[str, Any] = {}
        if isinstance(values, Mapping):
            self.values = values
        else:
            tell(f"{where}: this is a table, not {values!r}; it is left out")

    def get(self, key: str, read: Callable[[object], T]) -> T | None:
        if key not in self.values:
            return None
        try:
            return read(self.values[key])
        except ValueError as error:
            self.tell(f"{self._inside(key)}: {error}; it is left out")
            return None

    def table(self, key: str) -> "_Table":
        return _Table(self.values.get(key, {}), self._inside(key), self.tell)

    def tables(self, key: str) -> "dict[str, _Table]":
        inner = self.table(key)
        return {name: inner.table(name) for name in inner.values}

    def only(self, keys: frozenset[str]) -> "_Table":
        """The same; any other key is told."""
        for key in self.values:
            if key not in keys:
                self.tell(f"{self._inside(key)}: there is no such key; it is left out")
        return self

    def _inside(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key


def read_config(document: Mapping[str, Any], tell: Tell) -> Config:
    """The runtime keys of a parsed `hopbudget.toml`; `tell` gets a sentence for each that can't be understood."""
    top = _Table(document, "", tell)
    return Config(
        {name: _workload(table.only(WORKLOAD_KEYS)) for name, table in top.tables("workloads").items()},
        top.table("propagate").get("hosts", _texts) or (),
    )


def _workload(table: _Table) -> Workload:
    return Workload(
        deadline_s=table.get("deadline", duration),
        mode=table.get("enforce", read_mode),
        plan=table.get("plan", _text),
        max_steps=table.get("max_steps", _steps),
        hops={name: _hop(hop.only(HOP_KEYS)) for name, hop in table.tables("hops").items()},
        trajectory=table.table("match").get("name", _text),
    )


def _hop(table: _Table) -> HopTerms:
    return HopTerms(
        first_token_s=table.get("first_token", duration),
        stall_s=table.get("stall", duration),
        completion_s=table.get("completion", duration),
        silent_thinking=table.get("silent_thinking", _truth) or False,
        mode=table.get("enforce", read_mode),
    )


def read_environment(variables: Mapping[str, str], tell: Tell) -> Environment:
    """What the variables say; `tell` gets a sentence for each that can't be understood. An empty one says nothing."""
    table = _Table({name: variables[name] for name in _NAMES if variables.get(name)}, "", tell)
    hosts = table.get(PROPAGATE_TO, _text) or ""
    return Environment(
        off=(table.get(OFF, _text) or "").strip().lower() in _TRUE,
        deadline_s=table.get(DEADLINE, duration),
        mode=table.get(ENFORCE, read_mode),
        plan=table.get(PLAN, _text),
        config=table.get(CONFIG, _text),
        hosts=tuple(host.strip() for host in hosts.split(",") if host.strip()),
    )


_NAMES: Final = (CONFIG, DEADLINE, ENFORCE, OFF, PLAN, PROPAGATE_TO)
