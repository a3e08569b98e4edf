"""The page docs/doctor-bench.md and a summary, made of judged results."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import Callable

import torch
import transformers

from .models import DISTILLED_LAYERS, FAMILIES, HEADS, LAYERS, STEPS, TASK_STEPS, WIDTH
from .operators import OPERATORS, Operator, Scope
from .scores import PAPER_SCORES, Case, Judged, Score

HEAD = """\
# A benchmark of others

<!-- Made by tests/python/deform/benchmark.py page; do not edit. -->

"""

INTRODUCTION = """
DEForm (Jahan et al., arXiv 2604.28118) has {operators} operators that damage BERT, DistilBERT, RoBERTa, DistilRoBERTa,
GPT-2, DistilGPT-2 and GPT-Neo. We did not choose them. This page shows what `addnorm.check(model, batch, optimizer=…)`
says of the damaged models (transformers {transformers}, PyTorch {torch}).

The operators are written anew from the paper's tables and its published catalog, in `tests/python/deform`. In the
published package 12 of the injectors change no number of a model (FRG, KFT, KMC, KMD, KSB, NWD, PSI, PTL, QHD, RDR,
RGC, SDS); ours do what the catalog says. The models are classes of transformers with the configuration values of
the published checkpoints, but {width} features, {heads} heads and {layers} layers ({distilled} of the distilled
ones). "Fresh" models have initial weights. "Fitted" ones were trained for {steps} steps on an artificial language,
and the encoders for {task} more on a classification. Each operator runs with the values of the catalog, in one layer
(the first, the fourth or the last) and in all; the batch is padded.

Damage is **detected** if the doctor reports a finding, worse than a note, that it does not report of the sound twin.
It is **named** if such a finding has a rule for this damage, or its place. It is **in scope** if one model can show
it without a sound twin beside it: in its numbers, its configuration, its optimizer, or in what it does with a batch.
"""

COMPARED = """
The paper's detector, which is trained on such damage and reads a whole training run beside a sound one, reaches an F1
of {encoder:.3f} on encoders and {decoder:.3f} on decoders. Its figures and ours are not of the same cases. The paper
leaves out damage that does not change the accuracy or the perplexity significantly; here all of it counts. The
paper's models are trained with the damage; here the doctor sees one batch, before any step. "Weighted" is the recall
with the paper's numbers of damaged models by category (its Table 2). As in the paper, precision takes as many sound
models as damaged ones.
"""

RUN = """
## How to run it

It needs PyTorch, transformers from PyPI and addnorm, and takes about an hour on one core.

<!-- test: not run, it takes an hour and needs a package from PyPI -->
```sh
cd tests/python
python3 -m deform.benchmark run results.jsonl --weights weights
python3 -m deform.benchmark page results.jsonl > ../../docs/doctor-bench.md
python3 -m deform.benchmark table results.jsonl
```

`make test-all` runs all of it, and `make test` one case of each operator where transformers can be imported.
"""


def _wrapped(text: str) -> str:
    """The paragraphs, in lines of 120 characters at most."""
    return "\n\n".join(textwrap.fill(" ".join(paragraph.split()), 120, break_long_words=False,
                                     break_on_hyphens=False) for paragraph in text.strip().split("\n\n"))


def _table(head: str, rows: list[list[str]]) -> str:
    columns = head.count("|") - 1
    return "\n".join([head, "|---" * columns + "|", *("| " + " | ".join(row) + " |" for row in rows)])


def _share(score: Score) -> str:
    return f"{score.found} of {score.count}" if score.count else ""


# -- Figures --


def _figures(judged: Judged, names: list[tuple[str, dict[str, str]]]) -> str:
    rows = []
    for title, chosen in names:
        all_, scope = judged.score_of(**chosen), judged.score_of(**chosen, in_scope=True)
        named = judged.score_of(**chosen, in_scope=True, named=True)
        rows.append([title, str(all_.count), f"{all_.recall:.3f}", f"{all_.precision:.3f}", f"{all_.f1:.3f}",
                     str(scope.count), f"{scope.recall:.3f}", f"{scope.f1:.3f}", f"{named.recall:.3f}"])
    return _table("| | cases | recall | precision | F1 | in scope | recall in scope | F1 in scope | named in scope |",
                  rows)


def figures(judged: Judged) -> str:
    names: list[tuple[str, dict[str, str]]] = [("all", {})]
    for kind in ("encoder", "decoder"):
        names += [(f"{kind}s", {"kind": kind})]
        names += [(f"{kind}s, {state}", {"kind": kind, "state": state}) for state in ("fresh", "fitted")]
    return _figures(judged, names)


def by_model(judged: Judged) -> str:
    return _figures(judged, [(name, {"model": name}) for name in FAMILIES])


def sound(judged: Judged) -> str:
    text = f"{len(judged.accused)} of {len(judged.sound)} sound models are accused: fresh and fitted, with padding " \
           "and without, in training and in evaluation, of several seeds."
    rows = [f"- {line['model']}, {line['state']}, {line['batch']}, {line['mode']}, seed {line['seed']}: "
            + "; ".join(f"{rule} at {where}" for severity, rule, where, _ in line["findings"] if severity != "note")
            for line in judged.accused]
    return "\n".join([_wrapped(text), *([""] + rows if rows else [])])


# -- Operators --


def _scope_text(operator: Operator) -> str:
    scopes = {operator.scope_of(value) for value in operator.values}
    if len(scopes) == 1:
        return scopes.pop().value
    by_scope = {scope: [str(v) for v in operator.values if operator.scope_of(v) is scope] for scope in Scope}
    return "; ".join(f"{scope.value}: {', '.join(values)}" for scope, values in by_scope.items() if values)


def _count(cases: list[Case], good: Callable[[Case], bool]) -> str:
    return f"{sum(map(good, cases))} of {len(cases)}" if cases else "0 of 0"


def _why(operator: Operator, cases: list[Case]) -> str:
    """The rules that were reported most often, and what is missing where nothing was."""
    rules = Counter(rule for case in cases for rule in {rule for rule, _ in case.fired})
    parts = [", ".join(f"{rule} {count}" for rule, count in rules.most_common(3))] if rules else []
    noted = Counter(rule for case in cases if not case.is_detected
                    for rule in case.noted & set(operator.rules))
    parts += [f"a note: {', '.join(f'{rule} {count}' for rule, count in noted.items())}"] if noted else []
    if any(case.in_scope and not case.is_detected for case in cases):
        parts.append(f"missing: {operator.sight}")
    if operator.why:
        parts.append(f"out of scope: {operator.why}")
    return ". ".join(parts)


def operators(judged: Judged) -> str:
    rows = []
    for code, operator in OPERATORS.items():
        cases = [case for case in judged.cases if case.operator is operator]
        inside = [case for case in cases if case.in_scope]
        rows.append([code, f"{operator.category}: {operator.cause.replace('_', ' ')}", operator.sentence,
                     _scope_text(operator), _count(cases, lambda c: c.is_detected),
                     _count(inside, lambda c: c.is_detected), _count(inside, lambda c: c.is_named),
                     _why(operator, cases)])
    return _table("| operator | category | what it does | in scope | detected | in scope, detected "
                  "| in scope, named | rules, or why not |", rows)


def categories(judged: Judged) -> str:
    names = list(dict.fromkeys(operator.category for operator in OPERATORS.values()))
    rows = []
    for name in names:
        cases = [case for case in judged.cases if case.operator.category == name]
        inside = [case for case in cases if case.in_scope]
        rows.append([name, _count(cases, lambda c: c.is_detected), _count(inside, lambda c: c.is_detected),
                     _count(inside, lambda c: c.is_named)])
    return _table("| category | detected | in scope, detected | in scope, named |", rows)


def missed(judged: Judged) -> str:
    order = list(OPERATORS)
    rows = [[sight, ", ".join(sorted({case.operator.code for case in cases}, key=order.index)),
             f"{len(cases)} of {len(all_)}", str(sum(bool(case.noted) for case in cases))]
            for sight, cases, all_ in judged.missed()]
    return _table("| what would have to be measured | operators | missed in scope | of them with a note |", rows)


def absent(judged: Judged) -> str:
    reasons = Counter((line["operator"], line["absent"]) for line in judged.absent)
    models = {key: sorted({line["model"] for line in judged.absent if (line["operator"], line["absent"]) == key})
              for key in reasons}
    rows = [f"- {code} ({', '.join(models[code, why])}): {why}" for code, why in reasons]
    failed = Counter((line.get("operator", "sound"), line["error"][:100]) for line in judged.failed)
    rows += [f"- {code}, {count} cases: {error}" for (code, error), count in failed.items()]
    return "\n".join(rows) or "Nothing."


# -- The whole --


def _weighted(judged: Judged) -> str:
    rows = [[f"{kind}s", f"{judged.weighted_recall(kind):.3f}",
             *(f"{number:.3f}" for number in PAPER_SCORES[kind])] for kind in ("encoder", "decoder")]
    return _table("| | weighted | paper: F1 | paper: precision | paper: recall |", rows)


def _extent(judged: Judged, planned: int) -> str:
    """Says how many of the planned cases the results have."""
    run = len(judged.sound) + len(judged.cases) + len(judged.absent) + len(judged.failed)
    if run >= planned:
        return f"All {planned} cases were run."
    counts = Counter(case.line["severity"] for case in judged.cases)
    middle = counts["medium"] + counts["only"]
    return _wrapped(f"{run} of {planned} cases were run: of the damaged ones {middle} have the middle value of an "
                    f"operator, or its only one, and {sum(counts.values()) - middle} another value.")


def text(judged: Judged, planned: int) -> str:
    """planned: the number of cases of a whole run."""
    version = torch.__version__.split("+")[0]
    introduction = _wrapped(INTRODUCTION.format(
        operators=len(OPERATORS), transformers=transformers.__version__, torch=version, width=WIDTH, heads=HEADS,
        layers=LAYERS, distilled=DISTILLED_LAYERS, steps=STEPS, task=TASK_STEPS))
    compared = _wrapped(COMPARED.format(**{kind: scores[0] for kind, scores in PAPER_SCORES.items()}))
    parts = [HEAD, introduction, "\n\n", _extent(judged, planned), "\n\n## Figures\n\n", figures(judged), "\n\n",
             compared, "\n\n", _weighted(judged), "\n\n## Sound models\n\n",
             sound(judged), "\n\n## By model\n\n", by_model(judged), "\n\n## By category\n\n", categories(judged),
             "\n\n## Operators\n\n", operators(judged), "\n\n## What is missed\n\n", missed(judged),
             "\n\n## What was not run\n\n", absent(judged), "\n", RUN]
    return "".join(parts)


def summary(judged: Judged) -> str:
    return "\n\n".join([figures(judged), _weighted(judged), sound(judged), by_model(judged), missed(judged),
                        absent(judged)])
