"""Spans made in code, as an OTLP/JSON exporter would write them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hopbudget.store import otlp
from hopbudget.store.duck import Store
from hopbudget.store.facts import Facts, of_traces
from hopbudget.store.spans import Span

T0 = 1_700_000_000_000_000_000
"""The start of all our traces, in nanoseconds."""


class Make:
    """Builds spans, requests and files. Times are seconds after T0; ids are made of short words."""

    t0 = T0

    @staticmethod
    def trace_id(word: str) -> str:
        return word.encode().hex().rjust(32, "a")

    @staticmethod
    def span_id(word: str) -> str:
        return word.encode().hex().rjust(16, "b")

    @classmethod
    def span(
        cls,
        name: str,
        start: float,
        end: float,
        *,
        parent: str | None = None,
        trace: str = "t",
        kind: int = 1,
        status: int = 0,
        span: str | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        attributes = more.pop("attributes", {})
        return {
            "traceId": cls.trace_id(trace),
            "spanId": cls.span_id(span or name[-8:]),
            "parentSpanId": cls.span_id(parent) if parent else "",
            "name": name,
            "kind": kind,
            "startTimeUnixNano": str(T0 + round(start * 1e9)),
            "endTimeUnixNano": str(T0 + round(end * 1e9)),
            "attributes": cls.pairs(attributes),
            "status": {"code": status} if status else {},
            **more,
        }

    @classmethod
    def agent(cls, word: str, start: float, end: float, **more: Any) -> dict[str, Any]:
        own = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": word}
        return cls.span(
            f"invoke_agent {word}", start, end, span=word, **(more | {"attributes": own | more.get("attributes", {})})
        )

    @classmethod
    def chat(cls, word: str, start: float, end: float, **more: Any) -> dict[str, Any]:
        own = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
        return cls.span(
            "chat m", start, end, span=word, kind=3, **(more | {"attributes": own | more.get("attributes", {})})
        )

    @classmethod
    def tool(cls, word: str, start: float, end: float, **more: Any) -> dict[str, Any]:
        own = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": word}
        return cls.span(
            f"execute_tool {word}", start, end, span=word, **(more | {"attributes": own | more.get("attributes", {})})
        )

    @classmethod
    def pairs(cls, attributes: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"key": key, "value": cls.value(value)} for key, value in attributes.items()]

    @classmethod
    def value(cls, value: Any) -> dict[str, Any]:
        match value:
            case bool():
                return {"boolValue": value}
            case int():
                return {"intValue": str(value)}
            case float():
                return {"doubleValue": value}
            case list():
                return {"arrayValue": {"values": [cls.value(item) for item in value]}}
            case _:
                return {"stringValue": str(value)}

    @classmethod
    def request(cls, spans: Iterable[dict[str, Any]], resource: dict[str, Any] | None = None) -> dict[str, Any]:
        named = {"attributes": cls.pairs({"service.name": "svc"} if resource is None else resource)}
        return {
            "resourceSpans": [{"resource": named, "scopeSpans": [{"scope": {"name": "tests"}, "spans": list(spans)}]}]
        }

    @classmethod
    def line(cls, spans: Iterable[dict[str, Any]], resource: dict[str, Any] | None = None) -> bytes:
        return json.dumps(cls.request(spans, resource)).encode()

    @classmethod
    def file(cls, path: Path, *requests: Iterable[dict[str, Any]]) -> Path:
        path.write_bytes(b"".join(cls.line(spans) + b"\n" for spans in requests))
        return path

    @classmethod
    def spans(cls, *spans: dict[str, Any], resource: dict[str, Any] | None = None) -> list[Span]:
        decoded = otlp.decode(cls.line(spans, resource))
        assert decoded.rejected == []
        return decoded.spans

    @classmethod
    def facts(cls, *spans: dict[str, Any], resource: dict[str, Any] | None = None) -> Facts:
        return of_traces([cls.spans(*spans, resource=resource)])

    @classmethod
    def run(cls, trace: str, at: float = 0.0) -> list[dict[str, Any]]:
        """A trajectory of one agent, two hops and a tool, four spans in all, ten seconds long."""
        return [
            cls.agent("bot", at, at + 10, trace=trace),
            cls.chat("plan", at, at + 3, parent="bot", trace=trace),
            cls.tool("search", at + 3, at + 5, parent="bot", trace=trace),
            cls.chat("write", at + 5, at + 10, parent="bot", trace=trace),
        ]


@pytest.fixture(scope="session")
def make() -> type[Make]:
    return Make


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "traces.duckdb")


class Rows:
    """Reads tables of a store as dicts."""

    @staticmethod
    def of(store: Store, sql: str) -> list[dict[str, Any]]:
        with store.reading() as con:
            cursor = con.execute(sql)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@pytest.fixture(scope="session")
def rows() -> type[Rows]:
    return Rows
