"""docs/method.md names the function that has each formula."""

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "method.md"
NAMED = sorted(set(re.findall(r"`(?!hopbudget\.)([a-z_.]+)\.([A-Za-z_]+)`", PAGE.read_text(encoding="utf-8"))))


def test_the_page_names_functions() -> None:
    assert len(NAMED) > 20


@pytest.mark.parametrize(("module", "name"), NAMED)
def test_what_the_page_names_exists(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(f"hopbudget.budgets.{module}"), name)
