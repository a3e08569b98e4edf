#!/usr/bin/env python3
"""Times the program's threads beside busy processes: python3 bench/busy_machine.py [PROGRAM ...]

Times kernels, `train` and `study` on an idle machine and beside one, two and four processes that only compute. Each
program runs with its defaults and with OMP_WAIT_POLICY=passive, which lets waiting threads sleep at once. The runs
alternate. The table has medians, and the ratio to the first program with `passive`.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(__file__), "..")
RELEASE = os.path.join(ROOT, "build", "release", "bin", "addnorm")
BUSY = (0, 1, 2, 4)
STACK = ["--text", *(os.path.join(ROOT, name) for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")),
         "--layers", "4", "--width", "128", "--heads", "4", "--context", "64", "--batch", "8"]


def run(program, environment, *arguments):
    start = time.perf_counter()
    output = subprocess.run([program, *arguments], env={**os.environ, **environment}, check=True, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return time.perf_counter() - start, output


def kernel(shape):
    def measure(program, environment):
        _, output = run(program, environment, "bench", "--kernel", "add_layer_norm", "--shape", shape, "--dtype", "f32",
                        "--rival", "none", "--repeats", "20", "--json")
        return 1e3 * json.loads(output.splitlines()[0])["ms"]
    return measure


def train(program, environment):
    with tempfile.TemporaryDirectory() as folder:
        return run(program, environment, "train", *STACK, "--steps", "30", "--out", os.path.join(folder, "run"))[0]


def study(program, environment):
    with tempfile.TemporaryDirectory() as folder:
        return run(program, environment, "study", *STACK, "--steps", "10", "--seeds", "1", "--out", folder)[0]


WORK = {"kernel 64 × 768, µs": kernel("64x768"), "kernel 8192 × 768, µs": kernel("8192x768"), "train, s": train,
        "study, s": study}


@contextlib.contextmanager
def busy_processes(count):
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("programs", nargs="*", default=[RELEASE], help="builds of addnorm to compare")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--work", help="only rows whose name begins so")
    arguments = parser.parse_args()
    variants = [(program, environment) for program in arguments.programs
                for environment in ({}, {"OMP_WAIT_POLICY": "passive"})]
    print("busy  work                   " + "  ".join(f"{'passive' if environment else 'as it is':>16}"
                                                      for _, environment in variants))
    for busy in BUSY:
        for name, measure in WORK.items():
            if not name.startswith(arguments.work or ""):
                continue
            times = [[] for _ in variants]
            with busy_processes(busy):
                for repeat in range(arguments.repeats + 1):
                    for variant, values in zip(variants, times):
                        values.append(measure(*variant))
            medians = [statistics.median(values[1:]) for values in times]  # the first run is the warm-up
            print(f"{busy:<4}  {name:<22} " + "  ".join(f"{m:8.2f} ({m / medians[1]:5.2f})" for m in medians),
                  flush=True)


if __name__ == "__main__":
    main()
