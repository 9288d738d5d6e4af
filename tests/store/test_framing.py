"""Files of OTLP in protobuf: as it is, with lengths before each message, zipped, cut off."""

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hopbudget.store import documents
from hopbudget.store.rewriting import lines

from .test_protobuf import as_protobuf


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


@pytest.fixture
def bodies(make: Any) -> list[bytes]:
    return [as_protobuf(line) for number in range(3) for line in lines(make.spans(*make.run(f"t{number}")))]


FRAMES = {
    "one after the other": b"".join,
    "four bytes of length, as the Collector writes": lambda bodies: b"".join(
        len(body).to_bytes(4, "big") + body for body in bodies
    ),
    "a varint of length": lambda bodies: b"".join(varint(len(body)) + body for body in bodies),
}


def read(path: Path) -> tuple[int, list[str]]:
    found = list(documents.pieces(path))
    return sum(len(piece.decoded.spans) for piece in found), [r for piece in found for r in piece.decoded.rejected]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", ["a.pb", "a.binpb", "a.binpb.gz"])
def test_every_framing_gives_all_spans(tmp_path: Path, bodies: list[bytes], frame: str, name: str) -> None:
    content = FRAMES[frame](bodies)
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert read(path) == (12, [])


@pytest.mark.parametrize("frame", ["one after the other", "four bytes of length, as the Collector writes"])
def test_under_another_name_it_is_told_by_its_bytes(tmp_path: Path, bodies: list[bytes], frame: str) -> None:
    path = tmp_path / "traces"
    path.write_bytes(FRAMES[frame](bodies))
    assert read(path) == (12, [])


@pytest.mark.parametrize("frame", FRAMES)
def test_a_file_cut_off_keeps_what_came_before(tmp_path: Path, bodies: list[bytes], frame: str) -> None:
    path = tmp_path / "a.pb"
    path.write_bytes(FRAMES[frame](bodies)[:-10])
    spans, rejected = read(path)
    assert spans == 8
    assert len(rejected) == 1
    assert "cut off" in rejected[0]


@pytest.mark.parametrize("frame", [name for name in FRAMES if "length" in name])
@pytest.mark.parametrize("damage", [lambda body: body[:-3], lambda body: b"\xff" + body[1:]])
def test_a_bad_message_takes_nothing_of_the_others(
    tmp_path: Path, bodies: list[bytes], frame: str, damage: Any
) -> None:
    path = tmp_path / "a.pb"
    path.write_bytes(FRAMES[frame]([bodies[0], damage(bodies[1]), bodies[2]]))
    spans, rejected = read(path)
    assert spans == 8
    assert len(rejected) == 1


@pytest.mark.parametrize("content", [b"\xff" * 40, b"\x0a\x05hello", b"\x00\xff\xff\xff\xff", b"\x0a" + b"\xff" * 12])
def test_what_is_no_protobuf_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.pb"
    path.write_bytes(content)
    spans, rejected = read(path)
    assert (spans, len(rejected)) == (0, 1)


def test_an_empty_file_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.pb"
    path.write_bytes(b"")
    assert read(path) == (0, [])


def test_json_that_begins_with_an_empty_line_is_still_json(make: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"\n" + make.line(make.run("t")))
    assert read(path) == (4, [])


def test_without_protobuf_everything_else_is_read_and_its_absence_is_said_by_name(make: Any, tmp_path: Path) -> None:
    make.file(tmp_path / "a.jsonl", make.run("t"))
    (tmp_path / "a.pb").write_bytes(b"")
    code = """
import sys
sys.modules["google.protobuf"] = None
from hopbudget.cli import run
assert run(["import", "a.jsonl"]) == 0
assert run(["import", "a.pb"]) == 4
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "hopbudget[serve]" in done.stderr
