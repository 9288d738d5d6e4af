"""One model under its several names."""

import pytest

from hopbudget.tracing.models import known_as, plain


@pytest.mark.parametrize(
    ("name", "is_plainly"),
    [
        ("gpt-4.1", "gpt-4.1"),
        ("openai/gpt-4.1-2025-04-14", "gpt-4.1"),
        ("GPT-4.1", "gpt-4.1"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet"),
        ("gemini-2.0-flash", "gemini-2.0-flash"),
        ("gpt-4-0613", "gpt-4"),
        ("gpt-4.1-mini", "gpt-4.1-mini"),
        ("llama3.1:70b", "llama3.1:70b"),
    ],
)
def test_provider_and_date_are_no_part_of_a_models_plain_name(name: str, is_plainly: str) -> None:
    assert plain(name) == is_plainly


def test_a_model_is_known_by_its_own_name_else_by_its_plain_one() -> None:
    models = ["gpt-4.1-2025-04-14", "gpt-4.1-mini-2025-04-14", "m-2024-01-01", "m-2025-01-01"]
    assert known_as("gpt-4.1", models) == "gpt-4.1-2025-04-14"
    assert known_as("m-2025-01-01", models) == "m-2025-01-01"
    assert known_as("m", models) is None
    assert known_as("other", models) is None
