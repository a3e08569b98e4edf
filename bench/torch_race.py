"""What the races against PyTorch share: contestants that are processes and take turns, and the environment in
which PyTorch is fastest.

PyTorch allocates its results anew in every step. As it is, the C library gives large pieces of memory back, and
much of a step goes into page faults of fresh memory; so it is raced with memory kept, and once more as it is. From
PyTorch 2 on, torch.compile is a contestant too, with memory kept.
"""

import os
import re
import statistics
import subprocess
import sys
import time

import torch

THREADS, WARM_UP, ROUNDS = 2, 2, 9
MUCH = 1.5  # from which on a table also has PyTorch as it is
MEMORY_KEPT = {"MALLOC_MMAP_THRESHOLD_": str(2**40), "MALLOC_TRIM_THRESHOLD_": str(2**40),
               "MALLOC_TOP_PAD_": str(2**26)}
with open("/proc/cpuinfo") as cpuinfo:  # without AVX-512 PyTorch's products in bfloat16 are plain loops: no race
    DTYPES = ("f32", "bf16") if "avx512bw" in cpuinfo.read() else ("f32",)
CORES = "SkylakeX", "Cooperlake", "SapphireRapids", "Zen", "Haswell"

# Prints the milliseconds of a product, if it is right.
PRODUCT = """
import time, torch
torch.set_num_threads(2)
a, b = torch.randn(1024, 768), torch.randn(768, 1024)
assert ((a @ b) - (a.double() @ b.double()).float()).abs().max() < 1e-2
times = []
for _ in range(9):
    start = time.perf_counter()
    a @ b
    times.append(time.perf_counter() - start)
print(1e3 * sorted(times)[4])
"""


def blas():
    """The library with which PyTorch multiplies: MKL is a part of the official wheels; Debian's takes the
    alternative of libblas.so.3."""
    if torch.backends.mkl.is_available():
        return "MKL"
    with open("/proc/self/maps") as maps:
        return ", ".join(sorted(set(re.findall(r"/\S*/lib(?:open)?blas\S*", maps.read()))))


def product_ms(environment):
    """Infinite where the product is wrong, or the processor has not the instructions."""
    run = subprocess.run([sys.executable, "-c", PRODUCT], env=environment, capture_output=True, text=True)
    return float(run.stdout) if run.returncode == 0 and run.stdout else float("inf")


def fastest_environment():
    """The environment for PyTorch with memory kept and OpenBLAS's fastest right kernels for this processor, which an
    OPENBLAS_CORETYPE that is set, or OpenBLAS's own choice, may not be; and what was chosen, in words."""
    kept = {**os.environ, **MEMORY_KEPT}
    if blas() == "MKL":
        return kept, "which chooses its own kernels"
    if "openblas" not in blas():
        print(f"PyTorch multiplies with {blas()}, which is slow; install libopenblas0-pthread", file=sys.stderr)
        sys.exit(2)
    unset = {name: value for name, value in kept.items() if not name.startswith("OPENBLAS_")}
    choices = {**({"as set": kept} if unset != kept else {}), "OpenBLAS's own choice": unset,
               **{core: {**unset, "OPENBLAS_CORETYPE": core} for core in CORES}}
    times = {name: product_ms(environment) for name, environment in choices.items()}
    fastest = min(times, key=times.get)
    return choices[fastest], f"kernels: {fastest} (of {', '.join(n for n, t in times.items() if t < float('inf'))})"


class Program:
    """A process that prints a line of milliseconds for each line that it reads; the first is what counts."""

    def __init__(self, *words, environment=os.environ):
        self.process = subprocess.Popen(
            list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**environment, "OMP_NUM_THREADS": str(THREADS)})
        self.lines = []

    def run(self):
        print("run", file=self.process.stdin, flush=True)
        self.lines.append(list(map(float, self.process.stdout.readline().split())))
        return self.lines[-1][0]

    def medians(self):
        """Of each number of the lines."""
        return [statistics.median(numbers) for numbers in zip(*self.lines[WARM_UP:])]

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def be_contestant(contestant, threads=THREADS):
    """Is such a process: contestant.run() gives the milliseconds."""
    torch.set_num_threads(threads)
    for _ in iter(sys.stdin.readline, ""):
        print(contestant.run(), flush=True)


def as_told(how, module):
    """The module as a contestant of TorchPrograms is told to run it."""
    return torch.compile(module, dynamic=False) if how == "compiled" else module


class TorchPrograms:
    """This script as PyTorch's contestants: `script --torch HOW WORDS`, with HOW eager or compiled, calls
    be_contestant()."""

    def __init__(self):
        self.environment, self.kernels = fastest_environment()

    def __call__(self, *words):
        """By name: with memory kept, as it is, and compiled where PyTorch can."""
        programs = {"PyTorch": self.kept("eager", *words), "as it is": Program(*self.script("eager", *words))}
        if hasattr(torch, "compile"):
            programs["compiled"] = self.kept("compiled", *words)
        return programs

    def kept(self, *words):
        return Program(*self.script(*words), environment=self.environment)

    @staticmethod
    def script(*words):
        return sys.executable, "-W", "ignore", sys.argv[0], "--torch", *words

    def __str__(self):
        return (f"PyTorch {torch.__version__} multiplies with {blas()},\n{self.kernels};\nwith memory kept, and as it "
                f"is where that takes {MUCH} times as long or more, for page faults of fresh memory")


def race(contestants):
    """The median of each one's milliseconds, by name, in turn."""
    times = {name: [] for name in contestants}
    for _ in range(WARM_UP + ROUNDS):
        for name, contestant in contestants.items():
            time.sleep(0.1)  # until the other's idle threads no longer spin
            times[name].append(contestant.run())
    for contestant in contestants.values():
        contestant.end()
    return {name: statistics.median(of[WARM_UP:]) for name, of in times.items()}


def ratios(times, ours):
    """Cells of the columns PyTorch, compiled and as it is: how many times as long as ours each takes; as it is where
    that differs much from PyTorch with memory kept."""
    shown = {"PyTorch": True, "compiled": "compiled" in times, "as it is": times["as it is"] > MUCH * times["PyTorch"]}
    return "".join(f"{times[name] / ours:10.2f}" if shows else f"{'':10}" for name, shows in shown.items())


RATIO_COLUMNS = "".join(f"{name:>10}" for name in ("PyTorch", "compiled", "as it is"))
