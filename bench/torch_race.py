"""What the races against PyTorch share: contestants that take turns, and a fair PyTorch."""

import os
import re
import statistics
import subprocess
import time

import torch

THREADS, WARM_UP, ROUNDS = 2, 2, 9


def blas():
    """The library with which Debian's PyTorch multiplies: an alternative of libblas.so.3."""
    with open("/proc/self/maps") as maps:
        loaded = sorted(set(re.findall(r"/\S*/lib(?:open)?blas\S*", maps.read())))
    return ", ".join(loaded)


def prepare():
    """Whether PyTorch runs as fast as it can here."""
    if "openblas" not in blas():
        print(f"PyTorch multiplies with {blas()}; install libopenblas0-pthread")
        return False
    torch.set_num_threads(THREADS)
    return True


class Program:
    """Ours: prints a line of milliseconds for each line that it reads; the first is what counts."""

    def __init__(self, *words):
        self.process = subprocess.Popen(
            list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(THREADS)})
        self.lines = []

    def run(self):
        print("run", file=self.process.stdin, flush=True)
        self.lines.append(list(map(float, self.process.stdout.readline().split())))
        return self.lines[-1][0]

    def medians(self):
        """Of each number of the lines."""
        return [statistics.median(numbers) for numbers in zip(*self.lines[WARM_UP:])]


def race(contestants):
    """The median of each one's milliseconds, in turn."""
    times = [[] for _ in contestants]
    for _ in range(WARM_UP + ROUNDS):
        for contestant, of in zip(contestants, times):
            time.sleep(0.1)  # until the other's idle threads no longer spin
            of.append(contestant.run())
    return [statistics.median(of[WARM_UP:]) for of in times]
