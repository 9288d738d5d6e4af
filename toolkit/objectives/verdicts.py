"""Verdicts on objectives for other programs: JUnit XML, and annotations of GitHub's workflows."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

from hopbudget.render.words import sentence, title

if TYPE_CHECKING:
    from hopbudget.objectives.checking import ObjectiveResult

_LEVEL: Final = {"breach": "error", "cant_say": "warning"}


def junit(results: Sequence["ObjectiveResult"]) -> str:
    """A test suite a workload, a test an objective: a breach fails, what can't be told is skipped."""
    root = ElementTree.Element("testsuites", name="hopbudget check")
    for workload, of_workload in groupby(results, key=lambda result: result.workload):
        group = list(of_workload)
        states = [result.state for result in group]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=workload,
            tests=str(len(group)),
            failures=str(states.count("breach")),
            skipped=str(states.count("cant_say")),
            errors="0",
        )
        for result in group:
            case = ElementTree.SubElement(suite, "testcase", classname=workload, name=title(result.objective))
            if result.state == "breach":
                ElementTree.SubElement(case, "failure", message=sentence(result))
            elif result.state == "cant_say":
                ElementTree.SubElement(case, "skipped", message=sentence(result))
            else:
                ElementTree.SubElement(case, "system-out").text = sentence(result)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def github(results: Sequence["ObjectiveResult"], config: Path) -> list[str]:
    """An error for each breach, a warning for each objective that can't be told, on its line of the configuration."""
    return [
        f"::{_LEVEL[result.state]} file={_property(str(config))},line={result.line or 1},"
        f"title={_property(f'{result.workload}: {title(result.objective)}')}::{_data(sentence(result))}"
        for result in results
        if result.state in _LEVEL
    ]


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
