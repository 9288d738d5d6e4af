"""The door of the `hopbudget` command: what it needs is checked here, so that a missing extra is a sentence."""

import io
import sys

from hopbudget.errors import Exit, UserError

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


def main() -> None:
    """Run the command line and leave with one of the documented exit codes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal of another encoding shows question marks where it has no bars.
            stream.reconfigure(errors="replace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; returns the exit code. Sentences about what went wrong go to standard error."""
    try:
        from hopbudget.commands import invoke

        return int(invoke(arguments or ["--help"]))
    except UserError as error:
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


def missing_extra(module: str | None) -> str | None:
    """The extra that brings a module, or None for a module that none of ours brings."""
    for known, extra in EXTRA_OF.items():
        if module is not None and (module == known or module.startswith(known + ".")):
            return extra
    return None


def _say(sentence: str) -> None:
    sys.stderr.write(f"hopbudget: {sentence}\n")
