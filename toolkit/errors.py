"""The one error that the command line turns into a sentence and an exit code."""

from enum import IntEnum
from typing import Final


class Exit(IntEnum):
    """Exit codes of every command."""

    DONE = 0
    NO = 1
    """The answer is no: a breach, an infeasible deadline, nothing imported."""
    USAGE = 2
    CANT_SAY = 3
    """Too little data to say."""
    ENVIRONMENT = 4
    """An extra is missing, a port is taken, a store is too new."""


class UserError(Exception):
    """Something a person can put right: the message says what was wrong, where, and what to do."""

    def __init__(self, message: str, exit_code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.message: Final = message
        self.exit_code: Final = exit_code
