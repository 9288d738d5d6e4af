"""Make the tree that type checkers and import-linter can follow: the package as folders of links."""

import shutil
import sys
import tomllib
from pathlib import Path


def link_tree(root: Path, target: Path) -> None:
    """Lay `target/hopbudget/...` as real folders with links to the sources that pyproject.toml names."""
    mapping: dict[str, str] = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    if target.exists():
        shutil.rmtree(target)
    for package, folder in mapping.items():
        place = target.joinpath(*package.split("."))
        place.mkdir(parents=True, exist_ok=True)
        for source in sorted((root / folder).iterdir()):
            if source.is_file() and source.suffix in {".py", ".pyi", ".typed"}:
                (place / source.name).symlink_to(source.resolve())


if __name__ == "__main__":
    link_tree(Path(__file__).resolve().parent.parent, Path(sys.argv[1]))
