"""The page for users: its curl lines are answered, and it leaves out no header, row, model, path or field."""

import dataclasses
import http.client
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hopbudget.endpoint import running
from hopbudget.endpoint.apis import APIS, Api
from hopbudget.endpoint.breaks import BREAKS
from hopbudget.endpoint.faults import ROWS
from hopbudget.endpoint.gpu import GPUS
from hopbudget.endpoint.knobs import _READERS as KNOBS
from hopbudget.endpoint.records import Sent

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "endpoint.md").read_text()
LINES = [line for line in PAGE.splitlines() if line.startswith("curl ")]
NAMES = [
    *(f"x-hopbudget-{knob}" for knob in KNOBS),
    *ROWS,
    *BREAKS,
    *GPUS,
    *(field.name for field in dataclasses.fields(Sent)),
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running() as base:
        yield base


def fetch(line: str, address: str) -> tuple[int, bytes]:
    """What curl would get, were it to ask the server at `address`."""
    words = iter(shlex.split(line)[1:])
    headers, body, url = {"content-type": "application/x-www-form-urlencoded"}, None, ""
    for word in words:
        match word:
            case "-H":
                name, _, value = next(words).partition(": ")
                headers[name] = value
            case "-d":
                body = next(words)
            case "-s" | "-N" | "-i":
                pass
            case _:
                url = word
    parts = urlsplit(url)
    assert parts.netloc == "127.0.0.1:8399"
    connection = http.client.HTTPConnection(urlsplit(address).netloc)
    try:
        connection.request("POST" if body else "GET", f"{parts.path}?{parts.query}", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_every_curl_line_is_answered(address: str) -> None:
    answers = [fetch(line, address) for line in LINES]
    statuses = [status for status, _ in answers]
    assert statuses == [200, 200, 200, 503, 200, 200, 200]
    models, response, message, _, retried, records, of_the_key = [body for _, body in answers]
    assert b"sim-reasoner" in models
    assert b"event: response.completed" in response
    assert b"event: message_stop" in message
    assert b"event: error" in retried
    assert len(json.loads(records)["sent"]) == 4
    assert [sent["status"] for sent in json.loads(of_the_key)["sent"]] == [503, 200]


@pytest.mark.parametrize("name", NAMES)
def test_the_page_names(name: str) -> None:
    assert re.search(rf"`{re.escape(name)}`", PAGE)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_the_page_names_the_path_of(api: Api) -> None:
    assert f"`POST {api.path}`" in PAGE
