"""Texts that were found in what real instrumentations export, by the names that they stand under."""

import pytest

from hopbudget.store import content


@pytest.mark.parametrize(
    "name",
    [
        "langfuse.observation.metadata.instructions",
        "langfuse.observation.metadata.tools",
        "langfuse.trace.metadata.system_prompt",
        "llm.request.functions.0.description",
        "llm.request.functions.0.parameters",
    ],
)
def test_instructions_and_tools_are_content(name: str) -> None:
    assert content.is_content(name)


@pytest.mark.parametrize("name", ["langfuse.observation.metadata.status", "langfuse.observation.model.parameters"])
def test_what_says_nothing_of_a_text_is_kept(name: str) -> None:
    assert not content.is_content(name)
