"""HTML and SVG by hand: escaped texts, tables, bars, a waterfall. No script, nothing fetched."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from hopbudget.render import base
from hopbudget.render.waterfall import Line
from hopbudget.units import seconds

STYLE: Final = """
:root { color-scheme: light dark; --ink: #1f2328; --quiet: #6a7079; --line: #d9dbdf; --paper: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e9eb; --quiet: #9aa0a8; --line: #3a3d42; --paper: #17181a; }
}
@media print { :root { --ink: #000; --quiet: #555; --line: #ccc; --paper: #fff; } section { break-inside: avoid; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1.2rem 4rem; color: var(--ink); background: var(--paper);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0; } h2 { font-size: 1.35rem; margin: 2.4rem 0 .4rem; }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .3rem; }
p { margin: .3rem 0; } .quiet { color: var(--quiet); font-size: .9rem; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; font-size: .92rem;
  font-variant-numeric: tabular-nums; }
th { text-align: right; font-weight: 500; color: var(--quiet); } td { text-align: right; }
th, td { padding: .22rem .5rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } td.words, th.words { text-align: left; }
svg { display: block; width: 100%; height: auto; margin: .3rem 0; } svg text { fill: var(--ink); font-size: 12px; }
svg .quiet { fill: var(--quiet); } code { font-size: .9em; }
.figures { display: flex; flex-wrap: wrap; gap: .7rem; margin: .7rem 0; padding: 0; list-style: none; }
.figures li { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .9rem; min-width: 9rem; }
.figures b { display: block; font-size: 1.35rem; font-weight: 600; }
.met { color: #009E73; } .breach { color: #D55E00; } .cant_say { color: var(--quiet); }
"""
_QUIET: Final = ' class="quiet"'
_WIDTH: Final = 960
_LABEL: Final = 210
_ROW: Final = 22
_ROOM: Final = 110


def page(title: str, parts: Iterable[str]) -> str:
    """A whole document."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]], words: Sequence[int] = ()) -> str:
    """A table; the first column and those of `words` to the left, the others to the right."""

    def cells(tag: str, row: Sequence[str]) -> str:
        classes = [' class="words"' if index in words else "" for index in range(len(row))]
        return "".join(f"<{tag}{of}>{escape(text)}</{tag}>" for of, text in zip(classes, row, strict=True))

    body = "".join(f"<tr>{cells('td', row)}</tr>\n" for row in rows)
    return f"<table><thead><tr>{cells('th', head)}</tr></thead>\n<tbody>{body}</tbody></table>"


def figures(given: Iterable[tuple[str, str, str]]) -> str:
    """Large figures: a label, a value, what stands behind it."""
    items = (
        f'<li><span class="quiet">{escape(label)}</span><b>{escape(value)}</b>'
        f'<span class="quiet">{escape(behind)}</span></li>'
        for label, value, behind in given
    )
    return f'<ul class="figures">{"".join(items)}</ul>'


def stacked(rows: Sequence[tuple[str, Sequence[tuple[float, str]], str]], told: str) -> str:
    """Bars from a common zero: a label, pieces (size, colour) end to end, and words behind.

    Pieces below zero go to the left of it.
    """
    right = max((sum(size for size, _ in pieces if size > 0) for _, pieces, _ in rows), default=0.0)
    left = max((-sum(size for size, _ in pieces if size < 0) for _, pieces, _ in rows), default=0.0)
    scale = (_WIDTH - _LABEL - _ROOM) / ((left + right) or 1.0)
    zero = _LABEL + left * scale
    drawn = []
    for index, (label, pieces, words) in enumerate(rows):
        top = index * _ROW
        ahead = back = zero
        for size, colour in pieces:
            wide = abs(size) * scale
            at = ahead if size > 0 else back - wide
            drawn.append(_bar(at, top + 3, wide, _ROW - 6, colour))
            ahead, back = (ahead + wide, back) if size > 0 else (ahead, back - wide)
        drawn.append(_text(_LABEL - 8, top + 15, _cut(label, 30), "end"))
        drawn.append(_text(ahead + 6, top + 15, words))
    drawn.append(f'<line x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{len(rows) * _ROW}" stroke="var(--line)"/>')
    return _svg(len(rows) * _ROW, drawn, told)


def intervals(rows: Sequence[tuple[str, float, float, float, bool, str]], told: str) -> str:
    """Estimates with their intervals about zero: label, low, value, high, whether to stress it, words behind."""
    label = 330
    low, high = min([0.0, *(row[1] for row in rows)]), max([0.0, *(row[3] for row in rows)])
    scale = (_WIDTH - label - 200) / ((high - low) or 1.0)

    def at(value: float) -> float:
        return label + (value - low) * scale

    drawn = [f'<line x1="{at(0):.1f}" x2="{at(0):.1f}" y1="0" y2="{len(rows) * _ROW}" stroke="var(--line)"/>']
    for index, (name, low_s, value, high_s, stressed, words) in enumerate(rows):
        middle = index * _ROW + 11
        colour = base.OVER if stressed else "#808591"
        ends = f'x1="{at(low_s):.1f}" x2="{at(high_s):.1f}" y1="{middle}" y2="{middle}"'
        drawn.append(f'<line {ends} stroke="{colour}" stroke-width="2"/>')
        drawn.append(f'<circle cx="{at(value):.1f}" cy="{middle}" r="4" fill="{colour}"/>')
        drawn.append(_text(label - 8, middle + 4, _cut(name, 48), "end"))
        drawn.append(_text(_WIDTH, middle + 4, words, "end"))
    return _svg(len(rows) * _ROW, drawn, told)


def waterfall(lines: Sequence[Line], total_s: float, deadline_s: float, told: str) -> str:
    """One trajectory over time, the deadline as a rule."""
    edge_s = max(total_s, deadline_s) or 1.0
    scale = (_WIDTH - _LABEL - _ROOM) / edge_s
    drawn = []
    for index, line in enumerate(lines):
        top, at = index * _ROW + _ROW, _LABEL + line.start_s * scale
        drawn.append(_text(_LABEL - 8, top + 15, _cut(line.label, 30), "end"))
        for size, colour in line.parts:
            drawn.append(_bar(at, top + 3, max(size * scale, 0.8), _ROW - 6, colour))
            at += size * scale
        note = f" {line.note.replace('_', ' ')}" if line.note else ""
        drawn.append(_text(at + 6, top + 15, seconds(line.duration_s) + note))
    height = (len(lines) + 1) * _ROW
    rule = _LABEL + deadline_s * scale
    drawn.append(
        f'<line x1="{rule:.1f}" x2="{rule:.1f}" y1="{_ROW - 4}" y2="{height}" stroke="var(--ink)" '
        'stroke-dasharray="5 3" stroke-width="1.5"/>'
    )
    drawn.append(_text(rule, 13, f"deadline {seconds(deadline_s)}", "middle"))
    return _svg(height, drawn, told)


def legend(names: Iterable[tuple[str, str]]) -> str:
    """Colours and what they stand for."""
    return (
        '<p class="quiet">'
        + " &nbsp; ".join(f'<span style="color:{colour}">■</span> {escape(name)}' for name, colour in names)
        + "</p>"
    )


def paragraph(text: str, *, quiet: bool = False) -> str:
    """A paragraph of plain text."""
    return f"<p{_QUIET if quiet else ''}>{escape(text)}</p>"


def _bar(x: float, y: float, wide: float, high: float, colour: str) -> str:
    fill = colour if colour.startswith("#") else "#808591"
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high}" rx="2" fill="{fill}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"


def _svg(height: float, drawn: Iterable[str], told: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{escape(told)}">' + "".join(drawn) + "</svg>"
    )
