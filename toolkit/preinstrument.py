"""For `opentelemetry-instrument` under `hopbudget trace`: its start-up takes the place of ours, and calls this.

Only entry points lead here. Where nothing is traced, nothing is imported, so that it can't fail.
"""

import os


def begin() -> None:
    """Begin to record, if `hopbudget trace` started this program."""
    if "HOPBUDGET_TRACE_STORE" in os.environ:
        from hopbudget.recording.launched import begin as begin_recording

        begin_recording()
