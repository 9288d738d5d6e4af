"""On which line of a TOML text a key stands: the readers of TOML that we use don't say."""

import re
from typing import Final

Path = tuple[str | int, ...]
"""Keys and indices from the top of a document: ("workloads", "chat", "objectives", 0, "limit")."""

_HEADER: Final = re.compile(r"\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(?:#.*)?$")
_KEY: Final = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=""")
_PART: Final = re.compile(r""""([^"]*)"|'([^']*)'|([\w-]+)""")


class Lines:
    """The lines of a document's tables and keys, from 1."""

    def __init__(self, text: str) -> None:
        self._text = text.splitlines()
        self._known: dict[Path, int] = {}
        table: Path = ()
        counted: dict[Path, int] = {}
        for number, line in enumerate(self._text, start=1):
            if header := _HEADER.match(line):
                table = self._resolved(_parts(header[2]), counted, begins=header[1] == "[[")
                self._know(table, number)
            elif key := _KEY.match(line):
                self._know((*table, *_parts(key[1])), number)

    def of(self, path: Path) -> int:
        """The line of a key, or of what it stands in as closely as can be told; 1 where nothing can be."""
        for size in range(len(path), 0, -1):
            start = self._known.get(path[:size])
            if start is not None:
                return self._within(start, path[size:])
        return 1

    def _within(self, start: int, rest: Path) -> int:
        """The line of keys that stand inline below the line of their table."""
        at = start
        for part in rest:
            found = self._entry(at, part) if isinstance(part, int) else self._key(at, part)
            at = found or at
        return at

    def _key(self, start: int, key: str) -> int | None:
        word = re.compile(rf"""(?<![\w"'-])["']?{re.escape(key)}["']?\s*=""")
        for number in range(start, len(self._text) + 1):
            line = self._text[number - 1]
            if word.search(line):
                return number
            if number > start and _HEADER.match(line) and "=" not in line:
                return None
        return None

    def _entry(self, start: int, index: int) -> int | None:
        """The line of the inline table number `index` of an array that begins on line `start`."""
        seen = -1
        for number in range(start, len(self._text) + 1):
            seen += self._text[number - 1].count("{")
            if seen >= index:
                return number
        return None

    def _resolved(self, parts: Path, counted: dict[Path, int], *, begins: bool) -> Path:
        """The path with the index of each array of tables that it passes."""
        path: Path = ()
        for position, part in enumerate(parts):
            path = (*path, part)
            last = position == len(parts) - 1
            if last and begins:
                counted[path] = counted.get(path, -1) + 1
            if path in counted:
                path = (*path, counted[path])
        return path

    def _know(self, path: Path, number: int) -> None:
        for size in range(1, len(path) + 1):
            self._known.setdefault(path[:size], number)


def _parts(dotted: str) -> Path:
    return tuple(next(group for group in match.groups() if group is not None) for match in _PART.finditer(dotted))
