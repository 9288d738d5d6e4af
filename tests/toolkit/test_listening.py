"""What the endpoint and the receiver listen with."""

import uvicorn

from hopbudget import listening

EXPORTS_EACH_S = 5.0
"""How long the OpenTelemetry SDK's batch processor waits between two exports."""
CLIENT_KEEPS_S = 5.0
"""How long httpx keeps an idle connection."""


def test_an_idle_connection_is_closed_by_the_client_and_not_under_its_next_request() -> None:
    running = listening.server(uvicorn.Config("app"), lambda: None)
    assert running.config.timeout_keep_alive > 10 * max(EXPORTS_EACH_S, CLIENT_KEEPS_S)
