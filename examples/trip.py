"""What the agents here can do: two tools for planning a day out, each as slow as a small web service."""

import json
import os
import time
from typing import Any, Literal

City = Literal["Graz", "Lille", "Turin"]

QUESTION = "I have tomorrow off. Where should I go, and when does the train leave?"
SYSTEM = "You plan day trips. Look up the weather, then the trains, then answer in a few sentences."
MODEL = os.environ.get("AGENT_MODEL", "gpt-5-mini")


def weather(city: City) -> str:
    """Tomorrow's weather in a city."""
    time.sleep(0.08)
    return json.dumps({"city": city, "sky": "clear", "high_c": 24})


def trains(city: City) -> str:
    """Tomorrow's trains to a city."""
    time.sleep(0.06)
    return json.dumps({"city": city, "departures": ["07:12", "08:42", "10:12"], "minutes": 95})


TOOLS = {"weather": weather, "trains": trains}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Graz", "Lille", "Turin"]}},
    "required": ["city"],
    "additionalProperties": False,
}
"""The arguments of either tool."""


def call(name: str, arguments: dict[str, Any]) -> str:
    """Run the tool of this name."""
    return TOOLS[name](**arguments)
