"""`hopbudget.toml`: what "in time" means for each workload, and what else a person says once for all commands.

Read whole, with every mistake told at once. What a running agent needs of it, `hopbudget.tracing.settings` reads.
"""

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from hopbudget.budgets.attainment.objectives import WINDOW_S, Objective
from hopbudget.config.reading import read
from hopbudget.config.tables import Mistakes
from hopbudget.config.toml_lines import Lines
from hopbudget.errors import UserError
from hopbudget.store.narrow import nearest

FILE: Final = "hopbudget.toml"
VARIABLE: Final = "HOPBUDGET_CONFIG"
_MILLION: Final = 1e6


@dataclass(frozen=True, slots=True)
class HopLimits:
    """The limits of one hop in seconds; None where there is none."""

    first_token_s: float | None = None
    stall_s: float | None = None
    completion_s: float | None = None
    silent_thinking: bool = False
    enforce: Literal["observe", "deadline", "abort"] | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """A named class of trajectories: how they are told, what they may take, what is wanted of them."""

    name: str
    match: Mapping[str, str]
    """Attributes and their values; `name` is the stored workload, `service` the service. Unless said, its own name."""
    deadline_s: float | None = None
    enforce: Literal["observe", "deadline", "abort"] | None = None
    plan: str | None = None
    max_steps: int | None = None
    hops: Mapping[str, HopLimits] = field(default_factory=dict[str, HopLimits])
    objectives: tuple[Objective, ...] = ()


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens of a model cost, in the user's own currency; None where it is not known."""

    input: float | None = None
    output: float | None = None
    cached: float | None = None
    """Input tokens read from a cache; the input's price if it is not known."""

    def cost(self, input_tokens: float | None, output_tokens: float | None, cached_tokens: float = 0) -> float | None:
        """What one call cost; None where tokens or a price that it needs are not known."""
        if None in (self.input, self.output, input_tokens, output_tokens):
            return None
        assert (
            self.input is not None
            and self.output is not None
            and input_tokens is not None
            and output_tokens is not None
        )
        cached = self.input if self.cached is None else self.cached
        fresh = max(input_tokens - cached_tokens, 0)
        return (fresh * self.input + cached_tokens * cached + output_tokens * self.output) / _MILLION


@dataclass(frozen=True, slots=True)
class Config:
    """One `hopbudget.toml`."""

    path: Path
    workloads: tuple[Workload, ...] = ()
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    trace_url: str | None = None
    propagate_hosts: tuple[str, ...] = ()
    lines: Mapping[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    """The line of each objective, by workload and number."""

    def workload(self, name: str) -> Workload:
        """The workload of this name; UserError for an unknown one."""
        for workload in self.workloads:
            if workload.name == name:
                return workload
        known = [workload.name for workload in self.workloads]
        raise UserError(f"{self.path} has no workload {name!r}{nearest(name, known)}")

    def chosen(self, name: str | None) -> Sequence[Workload]:
        """The workload of this name, or every one where none is asked for; UserError for an unknown one."""
        return self.workloads if name is None else [self.workload(name)]

    def price(self, model: str) -> Price | None:
        """The price of a model; None if none is said."""
        return self.prices.get(model)

    def trace_link(self, trace_id: str) -> str | None:
        """Where the tracing tool of the user shows a trace; None if they don't say."""
        return None if self.trace_url is None else self.trace_url.replace("{trace_id}", trace_id)

    @property
    def longest_window_s(self) -> float:
        """The longest window of any objective, and never less than what a window is unless said otherwise."""
        windows = [objective.window_s for workload in self.workloads for objective in workload.objectives]
        return max([WINDOW_S, *windows])


def find(given: str | Path | None = None) -> Path | None:
    """The configuration that a command means: the option, else HOPBUDGET_CONFIG, else ./hopbudget.toml if it is there.

    UserError if one that was named is missing.
    """
    named = given or os.environ.get(VARIABLE)
    path = Path(named or FILE).expanduser()
    if path.is_file():
        return path
    if named:
        raise UserError(
            f"There is no configuration {path}. `hopbudget check --propose --out {path}` writes one from what a store "
            "holds."
        )
    return None


def load(path: Path) -> Config:
    """Read one; UserError tells every mistake with its line."""
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}.") from error
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not TOML: {error}.") from error
    mistakes = Mistakes()
    found = read(document, mistakes)
    lines = Lines(text)
    if mistakes.found:
        told = sorted((lines.of(where), sentence) for where, sentence in mistakes.found)
        raise UserError("\n".join(f"{path}:{line}: {sentence}" for line, sentence in told))
    return _config(path, found, lines)


def _config(path: Path, found: dict[str, Any], lines: Lines) -> Config:
    workloads = tuple(_workload(name, values) for name, values in found.get("workloads", {}).items())
    return Config(
        path=path,
        workloads=workloads,
        prices={model: Price(**price) for model, price in found.get("prices", {}).items()},
        trace_url=found.get("trace_url"),
        propagate_hosts=tuple(found.get("propagate", {}).get("hosts", ())),
        lines={
            (workload.name, index): lines.of(("workloads", workload.name, "objectives", index))
            for workload in workloads
            for index in range(len(workload.objectives))
        },
    )


def _workload(name: str, values: dict[str, Any]) -> Workload:
    hops = {hop: HopLimits(**_seconds(limits)) for hop, limits in values.get("hops", {}).items()}
    objectives = tuple(Objective(**_seconds(objective)) for objective in values.get("objectives", ()))
    rest = {key: value for key, value in values.items() if key not in {"match", "hops", "objectives"}}
    return Workload(
        name=name,
        match=values.get("match") or {"name": name},
        hops=hops,
        objectives=objectives,
        **_seconds(rest),
    )


_IN_SECONDS: Final = frozenset({"deadline", "first_token", "stall", "completion", "window"})


def _seconds(values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{key}_s" if key in _IN_SECONDS else key: value for key, value in values.items()}
