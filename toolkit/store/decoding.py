"""The process that decodes for an import: requests for batches on its input, batches on its output."""

import gc
import signal
import sys
from typing import IO

from hopbudget.store.batch import make_ready
from hopbudget.store.intake import batches
from hopbudget.store.workers import Decoded, read_job, say_up, write_batch, write_end


def serve(requests: IO[bytes], out: IO[bytes]) -> None:
    """Decode the files that are named, a batch a request, until there is nothing left or nobody asks."""
    say_up(out)
    files = read_job(requests)

    def wait() -> int:
        line = requests.readline()
        if not line:
            raise EOFError  # the parent has gone
        return int(line)

    for batch in batches(files, wait):
        ready = make_ready([batch.part])
        write_batch(out, Decoded(ready, batch.rejected, batch.rejected_count, batch.file, batch.read))
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
