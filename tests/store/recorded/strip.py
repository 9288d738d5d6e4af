"""A recording (FILE.pb of record.py) to a fixture: content dropped, nothing kept that tells of the machine.

python strip.py FILE.pb FIXTURE.jsonl      where hopbudget is installed
"""

import sys
from pathlib import Path

from hopbudget.store import protobuf
from hopbudget.store.rewriting import lines

_OF_RESOURCES = {"service.name", "service.version", "telemetry.sdk.language", "telemetry.sdk.name"}
_OF_MACHINES = ("code.", "process.", "host.", "os.", "thread.")
_LONG = ("logfire.json_schema", "logfire.msg_template", "metadata")


def strip(recording: bytes) -> bytes:
    """The spans as OTLP/JSON lines."""
    spans = protobuf.decode(recording).spans
    for span in spans:
        for name in [*span.attributes]:
            if name.startswith((*_OF_MACHINES, *_LONG)):
                del span.attributes[name]
        for name in [*span.resource]:
            if name not in _OF_RESOURCES:
                del span.resource[name]
    return b"".join(line + b"\n" for line in lines(spans))


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(strip(Path(sys.argv[1]).read_bytes()))
