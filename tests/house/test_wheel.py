"""The wheel holds the tree: every module of the four folders, and nothing else."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAPPING: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
FOLDERS = ("toolkit", "tracing", "budgets", "app")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built from a copy of the tree."""
    copy = tmp_path_factory.mktemp("tree")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(copy / "dist"),
        str(copy),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return zipfile.ZipFile(next((copy / "dist").glob("*.whl")))


def in_the_wheel(source: Path) -> str:
    folder = source.parent.relative_to(ROOT).as_posix()
    package = next(name for name, place in MAPPING.items() if place == folder)
    return f"{package.replace('.', '/')}/{source.name}"


def test_every_module_of_the_tree_is_in_the_wheel_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    sources = {path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    packed = {name for name in wheel.namelist() if name.endswith(".py")}
    assert packed == {in_the_wheel(source) for source in sources}


def test_the_wheel_says_that_it_is_typed(wheel: zipfile.ZipFile) -> None:
    assert "hopbudget/py.typed" in wheel.namelist()


def test_the_look_of_the_app_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    assert "hopbudget/app/.streamlit/config.toml" in wheel.namelist()


def test_the_decorators_install_brings_the_opentelemetry_api_alone(wheel: zipfile.ZipFile) -> None:
    metadata = next(wheel.read(name).decode() for name in wheel.namelist() if name.endswith("METADATA"))
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert [line.split()[1].split("<")[0].split(">")[0] for line in required] == ["opentelemetry-api"]


def test_every_folder_with_modules_is_a_listed_package() -> None:
    folders = {path.parent for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    assert {folder.relative_to(ROOT).as_posix() for folder in folders} == set(MAPPING.values())
