"""Requests to each API over ASGI: what a plain reply is, how limits and refusals look, who lists which models."""

import json
from typing import Any

import pytest

KNOBS = {"x-hopbudget-ttft": "0.3", "x-hopbudget-tpot": "0.02", "x-hopbudget-tokens": "3"}
PARAMETERS = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
APIS = ("chat", "completions", "responses", "messages")


def text(api: str, reply: Any) -> str:
    """The words of a plain reply."""
    found = {
        "chat": lambda: reply["choices"][0]["message"]["content"],
        "completions": lambda: reply["choices"][0]["text"],
        "responses": lambda: reply["output"][-1]["content"][0]["text"],
        "messages": lambda: reply["content"][-1]["text"],
    }[api]()
    assert isinstance(found, str)
    return found


def usage(reply: Any) -> tuple[int, int]:
    """Prompt and output tokens."""
    told = reply["usage"]
    return told.get("prompt_tokens", told.get("input_tokens")), told.get("completion_tokens", told.get("output_tokens"))


@pytest.mark.parametrize("api", APIS)
async def test_a_plain_reply_comes_whole_at_the_time_of_its_end(desk: Any, api: str) -> None:
    answer = await desk.post(api, {**KNOBS, "x-hopbudget-prompt-tokens": "50"})
    assert answer.parts[0][0] == pytest.approx(0.36)
    assert len(text(api, answer.json).split()) == 3
    assert usage(answer.json) == (50, 3)
    assert "simulated" in answer.headers["x-hopbudget-simulation"]
    assert answer.json["id"] == answer.headers["x-request-id"] == answer.headers["request-id"]


@pytest.mark.parametrize("api", APIS)
async def test_a_stream_says_what_the_plain_reply_says(desk: Any, api: str) -> None:
    seeded = {"seed": 1} if api in {"chat", "completions"} else {}
    stream = await desk.post(api, KNOBS, stream=True, **seeded)
    assert stream.headers["content-type"].startswith("text/event-stream")
    sent = (await desk.get(f"/hopbudget/sent/{stream.headers['x-request-id']}")).json
    assert (sent["api"], sent["status"], sent["tokens"], sent["client_gone"]) == (api, 200, 3, False)
    assert sent["chunk_s"] == pytest.approx([0.3, 0.32, 0.34])
    assert stream.complete


@pytest.mark.parametrize(
    ("api", "limit", "says"),
    [
        ("chat", "max_tokens", ["choices", 0, "finish_reason", "length"]),
        ("completions", "max_tokens", ["choices", 0, "finish_reason", "length"]),
        ("responses", "max_output_tokens", ["incomplete_details", "reason", "max_output_tokens"]),
        ("messages", "max_tokens", ["stop_reason", "max_tokens"]),
    ],
)
async def test_an_answer_at_its_limit_says_so(desk: Any, api: str, limit: str, says: list[Any]) -> None:
    found = (await desk.post(api, {"x-hopbudget-tokens": "9"}, **{limit: 4})).json
    assert usage(found)[1] == 4
    *path, reason = says
    for key in path:
        found = found[key]
    assert found == reason


async def test_a_response_at_its_limit_is_incomplete_in_its_stream_too(desk: Any) -> None:
    answer = await desk.post("responses", {"x-hopbudget-tokens": "9"}, stream=True, max_output_tokens=4)
    last = answer.events[-1][1]
    assert (last["type"], last["response"]["status"]) == ("response.incomplete", "incomplete")
    assert last["response"]["output"][0]["status"] == "incomplete"
    assert last["response"]["usage"]["output_tokens"] == 4


async def test_a_response_repeats_what_was_asked(desk: Any) -> None:
    tool = {"type": "function", "name": "search", "parameters": PARAMETERS, "strict": True}
    reply = (await desk.post("responses", tools=[tool], tool_choice="none", instructions="Be brief.")).json
    assert (reply["tools"], reply["tool_choice"], reply["instructions"]) == ([tool], "none", "Be brief.")


async def test_cached_tokens_are_counted_as_each_api_counts_them(desk: Any) -> None:
    knobs = {"x-hopbudget-prompt-tokens": "100", "x-hopbudget-cached-tokens": "40"}
    chat, response, message = [(await desk.post(api, knobs)).json["usage"] for api in ("chat", "responses", "messages")]
    assert chat["prompt_tokens_details"]["cached_tokens"] == 40
    assert (response["input_tokens"], response["input_tokens_details"]["cached_tokens"]) == (100, 40)
    assert (message["input_tokens"], message["cache_read_input_tokens"]) == (60, 40)


async def test_messages_call_a_tool_and_then_answer(desk: Any) -> None:
    tools = [{"name": "search", "input_schema": PARAMETERS}, {"type": "web_search_20250305", "name": "web_search"}]
    first = (await desk.post("messages", tools=tools)).json
    block = first["content"][0]
    assert (first["stop_reason"], block["type"], block["input"]) == ("tool_use", "tool_use", {"query": "simulated"})
    messages = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": block["id"], "content": "found"}]},
    ]
    second = (await desk.post("messages", tools=tools, messages=messages)).json
    assert (second["stop_reason"], second["content"][0]["type"]) == ("end_turn", "text")


async def test_responses_call_a_tool_and_then_answer(desk: Any) -> None:
    tools = [{"type": "function", "name": "search", "parameters": PARAMETERS}, {"type": "web_search"}]
    first = (await desk.post("responses", tools=tools)).json
    call = first["output"][0]
    assert (call["type"], json.loads(call["arguments"])) == ("function_call", {"query": "simulated"})
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "found"}
    asked = [{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}, call, output]
    second = (await desk.post("responses", tools=tools, input=asked)).json
    assert [item["type"] for item in second["output"]] == ["message"]


@pytest.mark.parametrize(
    ("api", "choice", "called"),
    [
        ("messages", {"type": "none"}, None),
        ("messages", {"type": "any"}, "search"),
        ("messages", {"type": "tool", "name": "read"}, "read"),
        ("responses", "none", None),
        ("responses", "required", "search"),
        ("responses", {"type": "function", "name": "read"}, "read"),
    ],
)
async def test_tool_choice_is_honoured(desk: Any, api: str, choice: Any, called: str | None) -> None:
    names = ("search", "read")
    tools: list[dict[str, Any]] = [{"type": "function", "name": name, "parameters": PARAMETERS} for name in names]
    if api == "messages":
        tools = [{"name": name, "input_schema": PARAMETERS} for name in names]
    reply = (await desk.post(api, tools=tools, tool_choice=choice)).json
    blocks = reply.get("content", reply.get("output"))
    assert next((block["name"] for block in blocks if "name" in block), None) == called


@pytest.mark.parametrize(
    ("api", "asked", "kinds"),
    [
        ("responses", {}, ["reasoning", "message"]),
        ("responses", {"reasoning": {"summary": "auto"}}, ["reasoning", "message"]),
        ("messages", {}, ["text"]),
        ("messages", {"thinking": {"type": "adaptive"}}, ["thinking", "text"]),
        ("messages", {"thinking": {"type": "enabled", "budget_tokens": 9, "display": "omitted"}}, ["thinking", "text"]),
    ],
)
async def test_a_model_thinks_aloud_only_where_it_is_asked_to(desk: Any, api: str, asked: Any, kinds: Any) -> None:
    reply = (await desk.post(api, KNOBS, model="sim-reasoner", **asked)).json
    blocks = reply.get("content", reply.get("output"))
    assert [block["type"] for block in blocks] == kinds
    aloud = blocks[0].get("summary") or blocks[0].get("thinking")
    assert bool(aloud) == (asked in ({"reasoning": {"summary": "auto"}}, {"thinking": {"type": "adaptive"}}))
    details = reply["usage"]["output_tokens_details"]
    assert (details.get("reasoning_tokens") or details.get("thinking_tokens")) == (60 if len(kinds) == 2 else 0)


async def test_hidden_reasoning_is_in_usage_and_not_in_the_stream(desk: Any) -> None:
    answer = await desk.post("responses", KNOBS, model="sim-reasoner", stream=True)
    sent = (await desk.sent())[0]
    assert (sent["tokens"], sent["first_token_s"]) == (3, pytest.approx(0.3 + 60 * 0.02))
    assert answer.events[-1][1]["response"]["usage"]["output_tokens"] == 63
    assert next(at for at, event in answer.events if event.get("item", {}).get("type") == "reasoning") == 0.3


async def test_reasoning_can_stand_in_the_content_between_tags(desk: Any) -> None:
    for api, knob in (("chat", {"x-hopbudget-reasoning-field": "content"}), ("completions", {})):
        said = text(api, (await desk.post(api, {**KNOBS, **knob}, model="sim-reasoner")).json)
        assert said.startswith("<think>")
        assert len(said.partition("</think>")[2].split()) == 3


@pytest.mark.parametrize(
    ("api", "body", "says"),
    [
        ("messages", {"max_tokens": 0}, "max_tokens"),
        ("messages", {"messages": []}, "empty"),
        ("messages", {"max_tokens": None}, "max_tokens"),
        ("responses", {"max_output_tokens": 0}, "max_output_tokens"),
        ("responses", {"input": []}, "empty"),
        ("responses", {"previous_response_id": "resp_1"}, "previous_response_id"),
        ("completions", {"prompt": ["one", "two"]}, "prompt"),
    ],
)
async def test_a_bad_request_is_refused_in_the_form_of_its_api(desk: Any, api: str, body: Any, says: str) -> None:
    answer = await desk.post(api, **body)
    error = answer.json["error"]
    assert (answer.status, error["type"]) == (400, "invalid_request_error")
    assert says in error["message"]
    assert answer.json.get("type") == ("error" if api == "messages" else None)


@pytest.mark.parametrize("prompt", ["hello", ["hello"], [1, 2, 3], [[1, 2, 3]]])
async def test_a_prompt_is_words_or_tokens(desk: Any, prompt: Any) -> None:
    reply = (await desk.post("completions", prompt=prompt)).json
    assert usage(reply)[0] == (5 if "hello" in prompt else 7)


async def test_each_client_gets_the_models_in_its_own_form(desk: Any) -> None:
    theirs = {"anthropic-version": "2023-06-01", "x-api-key": "anything"}
    anthropic = await desk.ask("GET", "/v1/models", headers=theirs)
    openai = await desk.get("/v1/models")
    assert [model["id"] for model in anthropic.json["data"]] == [model["id"] for model in openai.json["data"]]
    assert (anthropic.json["has_more"], anthropic.json["data"][0]["type"]) == (False, "model")
    assert openai.json["object"] == "list"
    missing = await desk.ask("GET", "/v1/models/claude-9", headers=theirs)
    assert (missing.status, missing.json["error"]["type"]) == (404, "not_found_error")
