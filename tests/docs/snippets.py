#!/usr/bin/python3
"""Runs the code in the documentation; see "Documentation" in HACKING.md.

    snippets.py [--slow] PAGE...      fails if a page differs from its code or from the code's output
    snippets.py --renew PAGE...       writes the code and its output into the pages

The language of a fence decides what is done:

    console   `$ ` begins a command, which is run; the following lines are compared with its output. …
              stands for anything, and alone on a line also for any number of lines
    sh        every line is run
    python    with `>>>` the block is a doctest; else as cpp
    cpp, c, cmake, js
              the lines, except for indentation and lines of …, occur in one file of examples/ or
              docs/snippets/, which the tests build and run
    text      output or a formula: nothing is done. The same holds for an indented block

Comments above a block give exceptions, for all of its commands or for those that begin with …:

    <!-- test: slow -->                     run with --slow alone
    <!-- test: exit 1 -->                   ends with that status
    <!-- test: with --steps 2 -->           that is added to the command
    <!-- test: about 10 -->                 numbers may differ by 10 %, those of at least 0.01 also by 0.05, and bars
                                            (▁ to █) in any way; words may not
    <!-- test: not run, REASON -->
    <!-- test: from FILE -->                shows this file, of examples/ or docs/snippets/
    <!-- test: from FILE, NAME -->          shows its part between the lines "docs: NAME" and "docs: end"
    <!-- test addnorm serve: not run, it serves until it is stopped -->

The commands of a page run in one empty folder, in order. It also has docs/snippets/, book.txt, a text, x.npy, and
profile.jsonl, of a model with a planted bug. ADDNORM_BUILD names the build that they use.

Pages are also read without being built, so they have no directives of Sphinx, and every link has a text.
"""

import argparse
import difflib
import doctest
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
SHOWN = [*(ROOT / "examples").iterdir(), *(ROOT / "docs/snippets").iterdir()]
RULE = re.compile(r"<!-- test( [^:]+)?: (slow|exit|with|about|not run,|from) ?(.*?) -->")
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
COMMAND = re.compile(r"(build/release/bin/)?addnorm |(make|cmake|cd|apt-get|npm|mpirun|pip|python3) |scripts/")
PROFILE = ROOT / "tests/golden/profiles/gpt2_norm_over_stream_2_attention.jsonl"


class Failure(Exception):
    pass


def blocks(text):
    """Yields (line, language, text, rules) of each code block. The rules come from the comments above it."""
    rules = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "html_block":
            rules += RULE.findall(token.content)
            if token.content.count("<!-- test") != len(RULE.findall(token.content)):
                raise Failure(f"line {line}: {token.content.strip()}: no such rule")
        elif token.type in ("fence", "code_block"):
            yield line, token.info.strip() or "text", token.content, rules
            rules = []
        elif rules and token.level == 0:
            raise Failure(f"line {line}: a rule without a code block below it")
        elif token.type == "inline" and ("link_open", "link_close") in itertools.pairwise(
                child.type for child in token.children):
            raise Failure(f"line {line}: a link without a text")


def pattern(output):
    """Returns the regular expression of an output in which … stands for anything."""
    lines = [re.escape(line.rstrip()).replace("…", ".*") + "\n" for line in output.splitlines()]
    return "".join("(?:.*\n)*?" if line == ".*\n" else line for line in lines)


def is_about(shown, printed, percent):
    """Whether an output has the shown words, and numbers close to the shown ones."""
    words = [re.sub("[▁-█]+", "▁", " ".join(NUMBER.sub("0", text).split())) for text in (shown, printed)]
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in (shown, printed)]
    return words[0] == words[1] and all(
        abs(a - b) <= percent / 100 * abs(a) or (abs(a) >= 0.01 and abs(a - b) <= 0.05)
        for a, b in zip(*numbers))


def agrees(shown, printed, said):
    if "about" not in said:
        return re.fullmatch(pattern(shown), printed)
    some = [line for line in shown.splitlines() if line != "…"]
    lines = printed.splitlines()
    parts = (lines[begin:begin + count] for begin in range(len(lines))
             for count in range(len(some) - 2, len(some) + 3))  # another number may break a line elsewhere
    return any(is_about("\n".join(some), "\n".join(part), float(said["about"])) for part in parts)


def commands(language, text):
    """Yields (command, output) of each command; output is None if it is not compared."""
    if language == "sh":
        return [(line, None) for line in re.findall(r"(?:.*\\\n)*.*", text) if line.split("#")[0].strip()]
    if not text.startswith("$ "):
        raise Failure("a console block begins with '$ '")
    return re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)


def run(command, rules, folder):
    """Returns the output of the command."""
    command = command.replace("\\\n", " ").split("  #")[0]
    command = f"{command} {rules.get('with', '')}".strip()
    build = Path(os.environ["ADDNORM_BUILD"])
    result = subprocess.run(
        ["bash", "-c", command], cwd=folder, text=True, errors="replace", stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "PATH": f"{build}/bin:{folder}/bin:{os.environ['PATH']}", "OMP_NUM_THREADS": "1",
             "PYTHONPATH": f"{build}/python:{ROOT}/python"})
    if result.returncode != int(rules.get("exit", 0)):
        raise Failure(f"`{command}` ended with {result.returncode} and printed\n{result.stdout}")
    return "".join(line.rstrip() + "\n" for line in result.stdout.splitlines())


def run_all(language, text, rules, folder, slow):
    """Returns the block with the current output of its commands, and how many of them ran."""
    shown, ran = "", 0
    for command, output in commands(language, text):
        said = {verb: rest for prefix, verb, rest in rules if command.startswith(prefix.strip())}
        if "not run," not in said and ("slow" not in said or slow):
            printed = run(command, said, folder)
            ran += 1
            if output is not None and not agrees(output, printed, said):
                if "…" in output or "about" in said:
                    raise Failure(f"`{command}` printed\n{printed}\nand not\n{output}")
                output = printed
        shown += "" if output is None else f"$ {command}\n{output}"
    return text if language == "sh" else shown, ran


def source(file, name):
    """Returns a file, or its part of this name."""
    if not file.startswith(("examples/", "docs/snippets/")):
        raise Failure(f"{file} is neither in examples/ nor in docs/snippets/")
    text = (ROOT / file).read_text()
    if not name:
        return text
    part = re.search(rf"^.*docs: {re.escape(name)}\b.*\n((?:.*\n)*?).*docs: end", text, re.MULTILINE)
    if part is None:
        raise Failure(f"{file} has no line \"docs: {name}\"")
    return textwrap.dedent(part[1])


def stands_in_a_file(text):
    lines = [line.strip() for line in text.strip().splitlines()]
    if not any(re.search(pattern("\n".join(lines)), "".join(
            line.strip() + "\n" for line in file.read_text().splitlines()))
               for file in SHOWN if file.is_file()):
        raise Failure("stands in no file of examples/ or docs/snippets/:\n" + text)


def look_up(language, text, rules, folder, slow):
    """Returns the expected content of the block, and how many commands ran."""
    verbs = {verb: rest for _, verb, rest in rules}
    if language.startswith("{"):
        raise Failure(f"{language} is a directive: whoever reads the page without a build sees nothing")
    elif "from" in verbs:
        file, _, name = verbs["from"].partition(", ")
        return source(file, name), 0
    elif language in ("console", "sh"):
        return run_all(language, text, rules, folder, slow)
    elif language == "text" and COMMAND.match(text):
        raise Failure("begins with a command: write it as a fence of sh or console")
    elif "not run," in verbs or language == "text":
        pass
    elif language == "python" and text.startswith(">>>"):
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        test = doctest.DocTestParser().get_doctest(text.replace("…", "..."), {}, "block", None, 0)
        said = []
        if runner.run(test, out=said.append).failed:
            raise Failure("".join(said))
    elif language in ("cpp", "c", "cmake", "js", "python"):
        stands_in_a_file(text)
    else:
        raise Failure(f"the language is {language}, must be console, sh, python, cpp, c, cmake, js or text")
    return text, 0


def check_page(page, slow, renew):
    text = page.read_text()
    lines = text.splitlines(keepends=True)
    moved = 0  # lines added to earlier blocks
    with tempfile.TemporaryDirectory() as folder:
        for file in (ROOT / "docs/snippets").iterdir():
            shutil.copy(file, folder)
        shutil.copy(PROFILE, f"{folder}/profile.jsonl")
        numpy.save(f"{folder}/x.npy", numpy.arange(12.0).reshape(3, 4))
        Path(folder, "book.txt").write_text("".join(p.read_text() for p in sorted(ROOT.glob("docs/*.md"))))
        for name in "bin", "build":
            Path(folder, name).mkdir()
        Path(folder, "bin/python3").symlink_to(sys.executable)
        Path(folder, "build/release").symlink_to(os.environ["ADDNORM_BUILD"])
        ran = 0
        for line, language, shown, rules in blocks(text):
            try:
                expected, count = look_up(language, shown, rules, folder, slow)
                ran += count
                if expected == shown:
                    continue
                if not renew:
                    changes = difflib.unified_diff(shown.splitlines(), expected.splitlines(),
                                                   "the page", "what it should show", lineterm="")
                    raise Failure("\n".join([*changes, "snippets.py --renew PAGE writes that"]))
            except Failure as failure:
                raise Failure(f"line {line}: {failure}") from None
            first, old, new = line + moved, len(shown.splitlines()), expected.splitlines(keepends=True)
            lines[first:first + old] = new
            moved += len(new) - old
        if renew:
            page.write_text("".join(lines))
        print(f"{page.relative_to(ROOT)}: {ran} commands ran")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--slow", action="store_true", help="run what is slow as well")
    parser.add_argument("--renew", action="store_true", help="write what is shown anew")
    parser.add_argument("pages", nargs="+", type=Path)
    options = parser.parse_args()
    os.environ["ADDNORM_BUILD"] = os.path.abspath(os.environ["ADDNORM_BUILD"])  # commands run in another folder
    sys.path.insert(0, os.environ["ADDNORM_BUILD"] + "/python")
    failed = False
    for page in options.pages:
        try:
            check_page(page.resolve(), options.slow, options.renew)
        except Failure as failure:
            failed = True
            print(f"{page}: {failure}", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
