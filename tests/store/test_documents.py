"""Files in every form: lines, one object, arrays, pretty or not, larger than what is read at once, cut off."""

import json
from pathlib import Path
from typing import Any

import pytest

from hopbudget.store import documents


def read(path: Path) -> tuple[list[str], list[str]]:
    """Span ids and reasons of rejection."""
    found = list(documents.pieces(path))
    spans = [span.span_id for piece in found for span in piece.decoded.spans]
    return spans, [f"{piece.line}: {reason}" for piece in found for reason in piece.decoded.rejected]


@pytest.fixture
def requests(make: Any) -> list[dict[str, Any]]:
    return [make.request([make.chat(f"s{number}{index}", 0, 1) for index in range(3)]) for number in range(4)]


@pytest.fixture
def ids(make: Any) -> list[str]:
    return [make.span_id(f"s{number}{index}") for number in range(4) for index in range(3)]


@pytest.mark.parametrize(
    "write",
    [
        lambda requests: "\n".join(json.dumps(request) for request in requests),
        lambda requests: "\r\n\r\n".join(json.dumps(request) for request in requests) + "\r\n",
        json.dumps,
        lambda requests: json.dumps(requests, indent=2),
        lambda requests: "\n".join(json.dumps(request, indent=1) for request in requests),
        lambda requests: json.dumps(
            {"resourceSpans": [part for request in requests for part in request["resourceSpans"]]}, indent=4
        ),
        lambda requests: "\ufeff" + json.dumps(requests, indent=2),
    ],
    ids=["lines", "lines of windows", "array", "pretty array", "pretty objects", "one pretty object", "with a mark"],
)
def test_every_form_gives_the_same_spans(tmp_path: Path, requests: Any, ids: list[str], write: Any) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(write(requests).encode())
    assert read(path) == (ids, [])


def test_a_resource_that_comes_after_its_spans_is_still_theirs(tmp_path: Path, requests: Any) -> None:
    for request in requests:
        for part in request["resourceSpans"]:
            part["resource"] = part.pop("resource")
    path = tmp_path / "a.json"
    path.write_text(json.dumps(requests, indent=2))
    resources = [span.resource for piece in documents.pieces(path) for span in piece.decoded.spans]
    assert resources == [{"service.name": "svc"}] * 12


@pytest.mark.parametrize("indent", [None, 1])
def test_a_document_larger_than_what_is_read_at_once(make: Any, tmp_path: Path, indent: int | None) -> None:
    spans = [make.chat(f"{number:x}", 0, 1, attributes={"text": '日本 \\" []{}' * 20}) for number in range(6000)]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(make.request(spans), indent=indent), encoding="utf-8")
    assert path.stat().st_size > documents._PEEK
    found = list(documents.pieces(path))
    assert sum(len(piece.decoded.spans) for piece in found) == 6000
    assert all(piece.decoded.rejected == [] for piece in found)
    assert max(len(piece.decoded.spans) for piece in found) <= 500


def test_a_document_cut_off_keeps_what_came_before(tmp_path: Path, requests: Any, ids: list[str]) -> None:
    path = tmp_path / "a.json"
    text = json.dumps(requests, indent=2)
    path.write_text(text[: len(text) * 2 // 3])
    spans, rejected = read(path)
    assert 0 < len(spans) < len(ids)
    assert len(rejected) == 1
    assert "cut off" in rejected[0]


def test_a_single_line_cut_off_is_one_rejection(tmp_path: Path, requests: Any) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(requests[0])[:-30])
    spans, rejected = read(path)
    assert spans == []
    assert len(rejected) == 1


def test_a_last_line_without_its_newline_counts(tmp_path: Path, requests: Any, ids: list[str]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(requests[0]) + "\n" + json.dumps(requests[1]))
    assert read(path) == (ids[:6], [])


def test_garbage_before_good_lines_costs_its_own_lines(tmp_path: Path, requests: Any, ids: list[str]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("{broken\n[\n" + json.dumps(requests[0]) + "\n")
    spans, rejected = read(path)
    assert spans == ids[:3]
    assert [reason.split(":")[0] for reason in rejected] == ["1", "2"]


def test_an_empty_file_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("")
    assert read(path) == ([], [])


def test_a_binary_file_is_rejected_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(bytes(range(256)).replace(b"\n", b"") * 10)
    spans, rejected = read(path)
    assert spans == []
    assert len(rejected) == 1
