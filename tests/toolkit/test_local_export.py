"""The way of spans to the spool: counted, bounded, silent."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from hopbudget.recording.export import BATCH, SpoolProcessor


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "s.duckdb.spool"


def provider_with(processor: SpoolProcessor, **options: Any) -> Any:
    provider = TracerProvider(shutdown_on_exit=False, **options)
    provider.add_span_processor(processor)
    return provider.get_tracer("t")


def names(folder: Path) -> list[str]:
    """Names of all spans in the spool."""
    found = []
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            for resource in json.loads(line)["resourceSpans"]:
                found += [span["name"] for scope in resource["scopeSpans"] for span in scope["spans"]]
    return found


def notes(folder: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for file in folder.glob("*.dropped"):
        note = json.loads(file.read_text())
        found[note["reason"]] = found.get(note["reason"], 0) + note["spans"]
    return found


def test_flush_writes_what_ended_and_counts_it(folder: Path) -> None:
    processor = SpoolProcessor(folder, delay_s=60)
    tracer = provider_with(processor)
    for name in "abc":
        tracer.start_span(name).end()
    assert processor.flush() == 3
    assert names(folder) == ["a", "b", "c"]
    assert processor.flush() == 0
    tracer.start_span("d").end()
    assert processor.flush() == 1
    processor.shutdown()


def test_the_thread_writes_by_itself(folder: Path) -> None:
    processor = SpoolProcessor(folder, delay_s=0)
    written = threading.Event()
    append = processor.spool.append

    def appended(lines: Any, spans: int) -> None:
        append(lines, spans)
        written.set()

    processor.spool.append = appended  # type: ignore[method-assign]
    provider_with(processor).start_span("a").end()
    assert written.wait(30)
    assert names(folder) == ["a"]
    processor.shutdown()
    assert processor.flush() == 1  # since the last flush, whoever wrote


def test_a_full_batch_does_not_wait_for_the_delay(folder: Path) -> None:
    processor = SpoolProcessor(folder, delay_s=600)
    written = threading.Event()
    append = processor.spool.append

    def appended(lines: Any, spans: int) -> None:
        append(lines, spans)
        written.set()

    processor.spool.append = appended  # type: ignore[method-assign]
    tracer = provider_with(processor)
    for _ in range(BATCH):
        tracer.start_span("a").end()
    assert written.wait(30)
    processor.shutdown()
    assert len(names(folder)) == BATCH


def test_spans_not_sampled_are_not_written(folder: Path) -> None:
    processor = SpoolProcessor(folder, delay_s=60)
    provider_with(processor, sampler=ALWAYS_OFF).start_span("a").end()
    assert processor.flush() == 0
    assert not folder.exists()


def test_past_the_queues_limit_new_spans_are_dropped_and_counted(folder: Path) -> None:
    processor = SpoolProcessor(folder, queue_limit=2, delay_s=60)
    tracer = provider_with(processor)
    for name in "abcde":
        tracer.start_span(name).end()
    assert processor.flush() == 2
    assert names(folder) == ["a", "b"]
    assert notes(folder) == {"queue_full": 3}
    processor.shutdown()


def test_a_folder_that_cannot_be_is_said_once_in_the_log_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    processor = SpoolProcessor(tmp_path / "file" / "s.spool", delay_s=60)
    tracer = provider_with(processor)
    for _ in range(2):
        tracer.start_span("a").end()
        assert processor.flush() == 0
    assert processor.lost == {"write_failed": 2}
    assert [str(tmp_path / "file" / "s.spool") in record.getMessage() for record in caplog.records] == [True]
    (tmp_path / "file").unlink()
    tracer.start_span("b").end()
    assert processor.flush() == 1
    assert notes(tmp_path / "file" / "s.spool") == {"write_failed": 2}
    processor.shutdown()


def test_moving_on_writes_first(tmp_path: Path) -> None:
    processor = SpoolProcessor(tmp_path / "one", delay_s=60)
    tracer = provider_with(processor)
    tracer.start_span("a").end()
    processor.move(tmp_path / "two")
    tracer.start_span("b").end()
    assert processor.flush() == 2
    assert (names(tmp_path / "one"), names(tmp_path / "two")) == (["a"], ["b"])
    processor.shutdown()


def test_spans_that_end_after_shutdown_are_kept_for_a_flush(folder: Path) -> None:
    processor = SpoolProcessor(folder, delay_s=60)
    tracer = provider_with(processor)
    processor.shutdown()
    tracer.start_span("late").end()
    assert processor.flush() == 1
    assert names(folder) == ["late"]
