"""Draws kernels.csv, the experiments on the norm kernels, as images/kernels.svg:

    python3 docs/kernels_figure.py >docs/images/kernels.svg
"""

import csv
import textwrap
from html import escape
from itertools import groupby
from pathlib import Path

WIDTH, LABELS, LINE = 760, 430, 16  # in pixels: the image, the labels, a line of text
LOW, HIGH, STEP = -40, 60, 20  # the axis, in per cent

STYLE = """
.chart{color-scheme:light dark;--paper:#fff;--ink:#1c2128;--muted:#59636e;--grid:#e4e7eb;
--kept:#1a7f4b;--dropped:#8a939e}
@media (prefers-color-scheme:dark){.chart{--paper:#14171c;--ink:#e8eaed;--muted:#9aa4b0;
--grid:#2b3038;--kept:#4cc38a;--dropped:#7d8794}}
text{font:12px system-ui,sans-serif;fill:var(--ink)}
.muted{fill:var(--muted)}
.machine{font-size:15px;font-weight:600}
.grid{stroke:var(--grid)}
.zero{stroke:var(--muted)}
.kept{fill:var(--kept)}
.dropped{fill:var(--dropped)}
"""


def x_of(percent):
    share = (min(max(percent, LOW), HIGH) - LOW) / (HIGH - LOW)
    return round(LABELS + share * (WIDTH - LABELS - 60), 1)


def text(x, y, words, kind=""):
    return f'<text x="{x}" y="{y}" class="{kind}">{escape(words)}</text>'


def range_of(low, high):
    if low == high:
        return f"{high:+d} %"
    return f"{low:+d} to {high:+d} %"


def draw_row(row, y):
    """Returns the marks of a row, and its height."""
    low, high = int(row["faster_from_percent"]), int(row["faster_to_percent"])
    lines = textwrap.wrap(row["change"], 62)
    where = f"{row['direction']}, {row['storage']}, {row['shape']}"
    about = textwrap.wrap("; ".join(filter(None, [where, row["note"]])), 62)
    height = LINE * (len(lines) + len(about)) + 10
    marks = [text(0, y + LINE * (i + 1), line, "" if i < len(lines) else "muted")
             for i, line in enumerate(lines + about)]
    left, right = x_of(low), max(x_of(high), x_of(low) + 4)
    middle = y + height / 2
    kind = "kept" if row["kept"] == "yes" else "dropped"
    marks.append(f'<rect x="{left}" y="{middle - 4}" width="{round(right - left, 1)}" height="8" '
                 f'rx="2" class="{kind}"><title>{range_of(low, high)}</title></rect>')
    if high > HIGH:
        marks.append(text(right + 6, middle + 4, f"+{high}"))
    return marks, height


def draw(rows):
    marks = []
    y = 34
    for machine, tried in groupby(sorted(rows, key=lambda row: row["machine"]),
                                  key=lambda row: row["machine"]):
        marks.append(text(0, y + 20, machine, "machine"))
        y += 28
        for row in tried:
            row_marks, height = draw_row(row, y)
            marks += row_marks
            y += height
        y += 6
    axis = []
    for percent in range(LOW, HIGH + 1, STEP):
        x = x_of(percent)
        axis.append(f'<line x1="{x}" x2="{x}" y1="26" y2="{y}" '
                    f'class="{"grid" if percent else "zero"}"/>')
        axis.append(f'<text x="{x}" y="20" class="muted" text-anchor="middle">{percent:+d} %</text>'
                    if percent else
                    f'<text x="{x}" y="20" class="muted" text-anchor="middle">as fast</text>')
    legend = [f'<rect x="0" y="12" width="12" height="8" rx="2" class="kept"/>',
              text(18, 20, "kept", "muted"),
              f'<rect x="62" y="12" width="12" height="8" rx="2" class="dropped"/>',
              text(80, 20, "dropped", "muted")]
    return "\n".join([
        f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" role="img" width="{WIDTH}" '
        f'height="{y}" viewBox="0 0 {WIDTH} {y}">',
        "<title>How much faster each change made the norm kernels</title>",
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{y}" fill="var(--paper)"/>',
        *axis, *legend, *marks, "</svg>"])


if __name__ == "__main__":
    with open(Path(__file__).with_name("kernels.csv"), encoding="utf-8") as file:
        print(draw(list(csv.DictReader(file))))
