"""How limits are held, and the limits of one hop."""

from typing import Final, Literal, NamedTuple, TypeGuard

Mode = Literal["observe", "deadline", "abort"]

MODES: Final = ("observe", "deadline", "abort")


class HopTerms(NamedTuple):
    """The limits of one hop, in seconds; None where there is none.

    `first_token_s` and `completion_s` run from the issue of the request, `stall_s` from each generated token on.
    `silent_thinking`: the endpoint says nothing while it thinks, so `stall_s` waits for the first answer character.
    `mode`: how the limits are held, where that differs from the trajectory's.
    """

    first_token_s: float | None = None
    stall_s: float | None = None
    completion_s: float | None = None
    silent_thinking: bool = False
    mode: Mode | None = None


NO_LIMITS: Final = HopTerms()


def is_mode(value: object) -> TypeGuard[Mode]:
    """Whether it is a mode's name."""
    return isinstance(value, str) and value in MODES


def read_mode(value: object) -> Mode:
    """The mode of this name. Raises ValueError for another."""
    if not is_mode(value):
        raise ValueError(f"a mode is one of {', '.join(MODES)}, not {value!r}")
    return value
