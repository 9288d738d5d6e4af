"""The door of the `hopbudget` command: what it needs is checked here, so that a missing extra is a sentence."""

import errno
import signal
import sys
from types import FrameType
from typing import Final

from hopbudget.errors import Exit, UserError
from hopbudget.piping import patient, silence

EXTRA_OF = {
    "click": "local",
    "rich": "local",
    "duckdb": "local",
    "msgspec": "local",
    "numpy": "local",
    "scipy": "local",
    "tomlkit": "local",
    "opentelemetry.sdk": "local",
    "openai": "demo",
    "starlette": "demo",
    "uvicorn": "demo",
    "opentelemetry.proto": "serve",
    "google.protobuf": "serve",
    "streamlit": "app",
    "altair": "app",
    "pandas": "app",
}


_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


class _Interrupt:
    """Whether the person at the keyboard has had enough."""

    came = False


def main() -> None:
    """Run the command line and leave with one of the documented exit codes."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
    sys.stdout, sys.stderr = patient(sys.stdout), patient(sys.stderr)
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; returns the exit code. Sentences about what went wrong go to standard error."""
    try:
        from hopbudget.commands import invoke

        code = int(invoke(arguments or ["--help"]))
        sys.stdout.flush()
        return code
    except UserError as error:
        if _Interrupt.came:
            return 130
        _say(error.message)
        return int(error.exit_code)
    except ModuleNotFoundError as error:
        extra = missing_extra(error.name)
        if extra is None:
            raise
        _say(f"this command needs {error.name}, which is missing. Install it: pip install 'hopbudget[{extra}]'")
        return int(Exit.ENVIRONMENT)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _say(f"{error.filename or 'standard output'} can't be written: {error.strerror}")
        silence(1)  # what is left of it would fail again at the exit
        return int(Exit.ENVIRONMENT)
    except Exception:
        if _Interrupt.came:  # a library that was at work then, as DuckDB is, makes an exception of its own of it
            return 130
        raise


def _interrupted(number: int, frame: FrameType | None) -> None:
    _Interrupt.came = True
    signal.default_int_handler(number, frame)


def missing_extra(module: str | None) -> str | None:
    """The extra that brings a module, or None for a module that none of ours brings."""
    for known, extra in EXTRA_OF.items():
        if module is not None and (module == known or module.startswith(known + ".")):
            return extra
    return None


def _say(sentence: str) -> None:
    sys.stderr.write(f"hopbudget: {sentence}\n")
