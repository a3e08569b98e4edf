"""Runs addnorm.check on the seven models, damaged by every operator and sound; needs transformers from PyPI.

    cd tests/python
    python3 -m deform.benchmark run results.jsonl [--weights FOLDER] [--sample] [--only GPT-2,BERT]
    python3 -m deform.benchmark page results.jsonl > ../../docs/doctor-bench.md
    python3 -m deform.benchmark table results.jsonl

`run` adds results line by line; what is in the file is not run again. It takes an hour on one core. `--sample` is
one case of each operator in fresh models. `table` prints the figures and the missed cases.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import sys
import time
import warnings
from pathlib import Path
from typing import Any, Iterator

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.simplefilter("ignore")

import torch  # noqa: E402
import transformers  # noqa: E402
from torch import nn  # noqa: E402

import addnorm  # noqa: E402

from . import page, scores  # noqa: E402
from .models import FAMILIES, Family, optimizer_of  # noqa: E402
from .operators import OPERATORS, NotApplicable, apply, severity_of, values_of  # noqa: E402

Line = dict[str, Any]
STATES = "fresh", "fitted"
SOUND_SEEDS = 3


def model_of(family: Family, state: str, seed: int, folder: Path | None) -> nn.Module:
    """A sound model; fitted ones have the same weights whatever the seed, which also makes the batch."""
    return family.fresh(seed) if state == "fresh" else family.fitted(0, folder)


def jobs(only: set[str], is_sample: bool) -> Iterator[Line]:
    """The cases to run, each a line without results: sound models, then damaged ones with their middle values in
    all layers, then in one layer, then the other values; in a mixed order, so that a part of a run is a sample."""
    families = [f for f in FAMILIES.values() if not only or f.name in only]
    for family in families:
        for state in STATES[:1] if is_sample else STATES:
            for seed in range(1 if is_sample else SOUND_SEEDS):
                for batch in ("padded",) if is_sample else ("padded", "full"):
                    for mode in ("train",) if is_sample else ("train", "eval"):
                        yield {"what": "sound", "model": family.name, "state": state, "seed": seed,
                               "batch": batch, "mode": mode}
    damaged = [line for family in families for line in damaged_jobs(family, is_sample)]
    random.Random(0).shuffle(damaged)
    damaged.sort(key=lambda line: (line["severity"] not in ("medium", "only"), line["spread"] == "one"))
    yield from one_of_each(damaged) if is_sample else damaged


def damaged_jobs(family: Family, is_sample: bool) -> Iterator[Line]:
    for operator in OPERATORS.values():
        if not operator.fits(family.kind):
            continue
        for value in values_of(operator, is_sample):
            severity = severity_of(operator, value)
            for spread in ("one", "all") if operator.in_layers else ("whole",):
                for state in STATES[:1] if is_sample else STATES:
                    yield {"what": "damaged", "model": family.name, "operator": operator.code, "value": value,
                           "severity": severity, "spread": spread, "state": state,
                           "layer": layer_of(severity, family.config()) if spread == "one" else None}


def layer_of(severity: str, config: Any) -> int:
    """The one layer that is damaged: the first, the fourth or the last."""
    return {"low": 0, "high": config.num_hidden_layers - 1}.get(severity, 3)


def one_of_each(damaged: list[Line]) -> list[Line]:
    """A case of each operator, where possible in all layers."""
    return list({line["operator"]: line for line in reversed(damaged)}.values())


def run(job: Line, folder: Path | None) -> Line:
    """The job with "findings": [severity, rule, where, seen]; or with "absent" or "error" and a reason."""
    family, begin = FAMILIES[job["model"]], time.time()
    model = model_of(family, job["state"], job.get("seed", 0), folder)
    batch = family.batch(job.get("batch", "padded") == "padded", 1000 + job.get("seed", 0))
    optimizer = optimizer_of(model)
    try:
        if job["what"] == "damaged":
            torch.manual_seed(1)
            apply(OPERATORS[job["operator"]], model, family, job["value"], job["layer"], optimizer, batch)
        model.train(job.get("mode", "train") == "train")
        report = addnorm.check(model, copy.copy(batch), optimizer=optimizer)
    except NotApplicable as reason:
        return {**job, "absent": str(reason)}
    except Exception as error:
        return {**job, "error": f"{type(error).__name__}: {error}"[:300]}
    return {**job, "findings": [[f.severity, f.rule, f.where, f.seen[:160]] for f in report.findings],
            "left_out": [list(pair) for pair in report.coverage.left_out],
            "seconds": round(time.time() - begin, 2)}


def run_all(file: Path, folder: Path | None, only: set[str], is_sample: bool = False) -> list[Line]:
    """Runs what the file does not have yet, and returns all of its lines."""
    lines = [json.loads(text) for text in file.read_text().splitlines()] if file.exists() else []
    done = {key(line) for line in lines}
    with file.open("a") as out:
        for job in jobs(only, is_sample):
            if key(job) in done:
                continue
            lines.append(run(job, folder))
            out.write(json.dumps(lines[-1]) + "\n")
            out.flush()
    return lines


def key(line: Line) -> tuple[Any, ...]:
    names = "what", "model", "operator", "value", "spread", "state", "seed", "batch", "mode"
    return tuple(str(line.get(name)) for name in names)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["run", "page", "table"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--weights", type=Path, help="the folder for the weights of fitted models")
    parser.add_argument("--only", default="", help="names of models, with commas between them")
    parser.add_argument("--sample", action="store_true", help="one case of each operator")
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    if options.what == "run":
        run_all(options.file, options.weights, set(filter(None, options.only.split(","))), options.sample)
    judged = scores.Judged([json.loads(text) for text in options.file.read_text().splitlines()])
    if options.what == "page":
        print(page.text(judged, len(list(jobs(set(), False)))), end="")
    else:
        print(page.summary(judged))
    return int(bool(judged.accused))


if __name__ == "__main__":
    sys.exit(main())
