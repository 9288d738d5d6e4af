"""What instrumenting changes in the clients: nothing that a program could tell."""

import inspect
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import baggage, context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import hopbudget as hb
from hopbudget.tracing import clients, scope
from hopbudget.tracing.instrumentor import HopbudgetInstrumentor

openai = pytest.importorskip("openai", minversion="3")
anthropic = pytest.importorskip("anthropic")
base = pytest.importorskip("openai._base_client")

PATCHED = [
    (lib._base_client.__dict__[cls], name)
    for lib in (openai, anthropic)
    for cls in ("SyncAPIClient", "AsyncAPIClient")
    for name in ("request", "post", "_sleep_for_retry")
] + [(lib._base_client.BaseClient, "_build_request") for lib in (openai, anthropic)]


def functions() -> list[Any]:
    return [vars(owner)[name] for owner, name in PATCHED]


def test_uninstrument_puts_the_very_same_functions_back() -> None:
    before = functions()
    hb.instrument()
    assert all(now is not then for now, then in zip(functions(), before, strict=True))
    hb.uninstrument()
    assert all(now is then for now, then in zip(functions(), before, strict=True))


def test_instrumenting_twice_wraps_once() -> None:
    hb.instrument()
    once = functions()
    hb.instrument()
    assert functions() == once
    hb.uninstrument()
    hb.uninstrument()


def test_a_wrapper_put_over_ours_stays_and_ours_falls_silent(
    recorded: Any, wire: Any, openai_client: Any, replies: Any, arguments: Any
) -> None:
    ours = base.SyncAPIClient.request

    def other(*args: Any, **kwargs: Any) -> Any:
        return ours(*args, **kwargs)

    base.SyncAPIClient.request = other
    try:
        hb.uninstrument()
        assert base.SyncAPIClient.request is other
        wire.replies(replies["chat"])
        openai_client.chat.completions.create(**arguments["chat"])
        assert recorded.spans == []
    finally:
        base.SyncAPIClient.request = ours.__wrapped__


def test_signatures_and_kinds_are_kept(instrumented: None) -> None:
    for owner, name in PATCHED:
        function = vars(owner)[name]
        assert inspect.signature(function) == inspect.signature(function.__wrapped__)
        assert inspect.iscoroutinefunction(function) == inspect.iscoroutinefunction(function.__wrapped__)


def test_a_client_imported_later_is_instrumented_and_its_loader_is_its_own() -> None:
    code = (
        "import hopbudget as hb, sys; hb.instrument(); assert 'openai' not in sys.modules\n"
        "import openai._base_client as b, importlib.machinery as m\n"
        "print(hasattr(b.SyncAPIClient.request, '__wrapped__'), type(b.__spec__.loader) is m.SourceFileLoader,"
        " type(b.__loader__) is m.SourceFileLoader)\n"
        "hb.uninstrument(); print(hasattr(b.SyncAPIClient.request, '__wrapped__'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True", "False"]


def test_importing_hopbudget_does_not_load_the_clients() -> None:
    code = "import hopbudget, sys; print([m for m in sys.modules if m.startswith('hopbudget.tracing.client')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_types_of_what_comes_back_are_kept(
    recorded: Any, wire: Any, openai_client: Any, anthropic_client: Any, scripts: Any, replies: Any, arguments: Any
) -> None:
    completions = openai_client.chat.completions
    wire.streams(*scripts["chat"])
    with completions.create(**arguments["chat"], stream=True) as stream:
        assert isinstance(stream, openai.Stream)
        assert type(stream).__qualname__ == "Stream"
        assert stream.response.headers["content-type"] == "text/event-stream"
    wire.replies(replies["chat"], headers={"x-request-id": "q1"})
    raw = completions.with_raw_response.create(**arguments["chat"])
    assert type(raw) is type(openai._legacy_response.LegacyAPIResponse.__new__(type(raw)))
    assert (raw.headers["x-request-id"], raw.status_code, raw.parse().id) == ("q1", 200, "c1")
    wire.streams(*scripts["messages"])
    with anthropic_client.messages.stream(**arguments["messages"]) as helper:
        assert isinstance(helper, anthropic.MessageStream)
        assert "".join(helper.text_stream) == "Hello!"
        assert helper.get_final_message().usage.output_tokens == 3
    wire.streams(*scripts["chat"])
    with completions.stream(**arguments["chat"]) as events:
        assert [event.type for event in events].count("content.delta") == 4
        assert events.get_final_completion().choices[0].message.content == "Hello!"


def test_a_response_is_again_of_its_own_class_once_it_is_closed(
    recorded: Any, wire: Any, openai_client: Any, scripts: Any, arguments: Any
) -> None:
    wire.streams(*scripts["chat"])
    with openai_client.chat.completions.with_streaming_response.create(**arguments["chat"], stream=True) as response:
        response.read()
        inner = response.http_response
    assert type(inner).__mro__[0] is vars(sys.modules["httpx2"])["Response"]
    assert not [key for key in vars(inner) if "hopbudget" in key]


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_the_bytes_of_the_request_are_the_users(
    recorded: Any, wire: Any, openai_client: Any, anthropic_client: Any, scripts: Any, arguments: Any, resource: Any,
    api: str,
) -> None:  # fmt: skip
    client = anthropic_client if api == "messages" else openai_client
    sent = []
    for on in (True, False):
        (hb.instrument if on else hb.uninstrument)()
        wire.streams(*scripts[api], at=0)
        for _ in resource(client, api).create(**arguments[api], stream=True):
            pass
        request = wire.requests.pop()
        headers = {name: value for name, value in request.headers.items() if "idempotency" not in name}
        sent.append((request.content, headers))
    (with_us, headers_with_us), (without, headers_without) = sent
    assert with_us == without
    assert headers_with_us.keys() - headers_without.keys() == {"traceparent"}


def test_the_trace_context_reaches_the_server(
    recorded: Any, wire: Any, openai_client: Any, replies: Any, arguments: Any
) -> None:
    wire.replies(replies["chat"])
    openai_client.chat.completions.create(**arguments["chat"])
    span = recorded.only()
    sent = wire.requests[0].headers["traceparent"]
    assert sent.split("-")[1:3] == [f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"]


def test_a_trace_context_of_the_users_own_is_kept(
    recorded: Any, wire: Any, openai_client: Any, replies: Any, arguments: Any
) -> None:
    mine = {"Traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"}
    wire.replies(replies["chat"])
    openai_client.chat.completions.create(**arguments["chat"], extra_headers=mine)
    assert wire.requests[0].headers["traceparent"] == mine["Traceparent"]


def test_the_applications_baggage_is_not_sent(
    recorded: Any, wire: Any, openai_client: Any, replies: Any, arguments: Any
) -> None:
    wire.replies(replies["chat"])
    token = context.attach(baggage.set_baggage("user", "ann"))
    openai_client.chat.completions.create(**arguments["chat"])
    context.detach(token)
    assert "baggage" not in wire.requests[0].headers


def test_a_client_that_signs_its_requests_gets_no_header(
    recorded: Any, wire: Any, replies: Any, arguments: Any, instrumented: None
) -> None:
    httpx2 = sys.modules["httpx2"]

    class Signing(openai.OpenAI):  # type: ignore[name-defined,misc]
        def _prepare_request(self, request: Any) -> None:
            request.headers["signature"] = ",".join(sorted(request.headers))

    wire.replies(replies["chat"])
    with Signing(api_key="k", http_client=httpx2.Client(transport=wire)) as client:
        client.chat.completions.create(**arguments["chat"])
    assert "traceparent" not in wire.requests[0].headers
    assert "traceparent" not in wire.requests[0].headers["signature"]


def test_requests_that_are_no_model_calls_are_no_hops(recorded: Any, wire: Any, openai_client: Any) -> None:
    wire.replies({"object": "list", "data": []})
    openai_client.models.list()
    wire.replies({"object": "list", "data": [{"object": "embedding", "embedding": [0.5], "index": 0}], "model": "e",
                  "usage": {"prompt_tokens": 1, "total_tokens": 1}})  # fmt: skip
    openai_client.embeddings.create(model="e", input="hi", encoding_format="float")
    assert recorded.spans == []


def test_the_exception_is_the_clients_own(recorded: Any, wire: Any, openai_client: Any, arguments: Any) -> None:
    wire.replies({"error": {"message": "no", "type": "invalid_request_error"}}, status=400, at=50)
    with pytest.raises(openai.BadRequestError):
        openai_client.chat.completions.create(**arguments["chat"])
    assert recorded.tree() == "chat m 0-50 failed BadRequestError"


def test_nothing_is_recorded_without_a_provider(wire: Any, openai_client: Any, replies: Any, arguments: Any) -> None:
    wire.replies(replies["chat"])
    assert openai_client.chat.completions.create(**arguments["chat"]).id == "c1"
    assert "traceparent" not in wire.requests[0].headers


def test_a_hop_that_is_not_sampled_costs_nothing_and_changes_nothing(
    wire: Any, openai_client: Any, scripts: Any, arguments: Any
) -> None:
    scope.configure(provider=TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))
    try:
        wire.streams(*scripts["chat"])
        stream = openai_client.chat.completions.create(**arguments["chat"], stream=True)
        assert type(stream) is openai.Stream
        assert len(list(stream)) == 7
        assert not scope.open_blocks
    finally:
        scope.configure()


def test_a_client_whose_insides_changed_works_and_is_not_seen(
    recorded: Any, wire: Any, openai_client: Any, replies: Any, arguments: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "_route", lambda options: options.nothing_of_the_kind)
    errors = scope.recorder_errors()
    wire.replies(replies["chat"])
    assert openai_client.chat.completions.create(**arguments["chat"]).id == "c1"
    assert scope.recorder_errors() == errors + 1
    scope.setup.errors = errors


def test_the_opentelemetry_instrumentor_is_one_and_does_the_same() -> None:
    instrumentor = HopbudgetInstrumentor()
    assert instrumentor is HopbudgetInstrumentor()
    assert list(instrumentor.instrumentation_dependencies()) == []
    before = functions()
    instrumentor.instrument(skip_dep_check=True)
    assert instrumentor.is_instrumented_by_opentelemetry
    assert functions() != before
    instrumentor.uninstrument()
    assert functions() == before


def test_the_instrumentor_takes_a_provider(recorded: Any) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    HopbudgetInstrumentor().instrument(tracer_provider=provider)
    HopbudgetInstrumentor().uninstrument()
    assert scope.setup.provider is provider


@pytest.mark.parametrize(
    ("make", "provider"),
    [
        (lambda: openai.AzureOpenAI(api_key="k", api_version="1", azure_endpoint="http://a"), "azure.ai.openai"),
        (lambda: openai.OpenAI(api_key="k"), "openai"),
        (lambda: anthropic.AnthropicVertex(region="r", project_id="p", access_token="t"), "gcp.vertex_ai"),
        (lambda: anthropic.Anthropic(api_key="k"), "anthropic"),
    ],
)
def test_the_provider_is_named_by_the_clients_class(make: Any, provider: str) -> None:
    with make() as client:
        assert clients._provider(type(client)) == provider
