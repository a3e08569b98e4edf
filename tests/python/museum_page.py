"""Prints docs/museum.md, made from the doctor's report on each exhibit.

 PYTHONPATH=build/release/python python3 tests/python/museum_page.py > docs/museum.md
"""

from __future__ import annotations

import inspect
import textwrap

import addnorm
import museum
import torch

HEAD = """\
# A museum of real bugs

Each exhibit is a publicly reported bug, rebuilt in a small PyTorch model from what the thread says. None of them raised
an error. Below it is the first finding of `addnorm.check` for this model. The same model without the bug has no
finding. `tests/python/museum.py` has the models, `museum_test.py` checks all of them, and `tests/python/museum_page.py`
wrote this page.

{count} bugs of {threads} threads.

"""

UNNAMED = """
## What it does not name

| bug | thread | why |
|---|---|---|
"""

OTHERS = """
## What other tools say

These were given the same models, the sound and the broken one, with PyTorch 1.13. Only what they say of the broken one
alone counts. torchtest takes one step and asks which parameters changed and whether anything is infinite or NaN;
torchtest2 has 17 checks, such as the flow of gradients, and outputs that do not depend on other sequences. Neither
looks at sums and norms.

| tool | of {count} bugs | which |
|---|---|---|
"""


def report(exhibit: museum.Exhibit, part: type) -> addnorm.Report:
    torch.set_num_threads(1)
    return addnorm.check(**exhibit.case(part))


def code(exhibit: museum.Exhibit) -> str:
    """Returns the class without its decorator and docstring."""
    lines = textwrap.dedent(inspect.getsource(exhibit.broken)).splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("class "))
    quotes = [i for i, line in enumerate(lines) if '"""' in line]
    rest = lines[max(quotes) + 1:]
    return "\n".join([lines[first], *rest[1 if rest and not rest[0] else 0:]])


def row(exhibit: museum.Exhibit) -> str:
    place = exhibit.where.split(", layers.")[0]
    return f"| {exhibit.title} | [{exhibit.thread}]({exhibit.url}) | {exhibit.rule}, {place} |"


def wrapped(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def paragraph(exhibit: museum.Exhibit, finding: addnorm.Finding) -> str:
    story = wrapped(f"[{exhibit.thread}]({exhibit.url}). {exhibit.wrong}")
    said = wrapped(f"**{finding.rule}** at {finding.where}: {finding.seen}. Expected: {finding.expected}.")
    return f"""
### {exhibit.title}

{story}

<!-- test: not run, it is a part of tests/python/museum.py -->
```python
{code(exhibit)}
```

{said}
"""


def page() -> str:
    exhibits = museum.EXHIBITS
    found = [report(e, e.broken).findings[0] for e in exhibits]
    head = HEAD.format(count=len(exhibits), threads=len({e.thread for e in exhibits}))
    table = "\n".join(["| bug | thread | found by |", "|---|---|---|", *map(row, exhibits)])
    unnamed = UNNAMED + "".join(
        f"| {e.title} | [{e.thread}]({e.url}) | {e.wrong} {e.where} |\n" for e in museum.UNNAMED)
    titles = {e.name: e.title for e in exhibits + museum.UNNAMED}
    others = OTHERS.format(count=len(exhibits + museum.UNNAMED)) + "".join(
        f"| {tool} | {len(said)} | {'; '.join(f'{titles[name]} ({check})' for name, check in said.items())} |\n"
        for tool, said in museum.OTHERS.items())
    return head + table + "\n\n## One by one\n" + "".join(map(paragraph, exhibits, found)) + unnamed + others


if __name__ == "__main__":
    print(page(), end="")
