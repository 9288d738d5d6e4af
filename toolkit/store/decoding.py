"""The process that decodes for an import: requests for batches on its input, batches on its output."""

import gc
import signal
import sys
from typing import IO

from hopbudget.store.intake import Left, batches
from hopbudget.store.workers import make_decoded, read_job, say_up, write_batch, write_end, write_left


def serve(requests: IO[bytes], out: IO[bytes]) -> None:
    """Decode the files that are named, a batch a request, until there is nothing left or nobody asks."""
    say_up(out)
    files = read_job(requests)

    to_leave = 0

    def wait() -> int:
        nonlocal to_leave
        line = requests.readline()
        if not line:
            raise EOFError  # the parent has gone
        spans, to_leave = map(int, line.split())
        return spans

    def leave(part: Left) -> bool:
        nonlocal to_leave
        if not to_leave:
            return False
        to_leave -= 1
        write_left(out, part)
        return True

    for batch in batches(files, wait, leave=leave):
        write_batch(out, make_decoded(batch))
    write_end(out)


def main() -> None:
    """Serve the parent process; it also decides about an interrupt."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    try:
        serve(sys.stdin.buffer, sys.stdout.buffer)
    except (EOFError, BrokenPipeError):
        sys.exit(1)


if __name__ == "__main__":
    main()
