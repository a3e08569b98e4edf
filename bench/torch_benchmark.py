"""What the benchmarks against PyTorch share: candidates that are processes and take turns, and the environment in
which PyTorch is fastest.

PyTorch allocates its results anew in every step. As it is, the C library gives large pieces of memory back, and
much of a step goes into page faults of fresh memory; so it is measured with memory kept, and once more as it is. From
PyTorch 2 on, torch.compile is a candidate too, with memory kept.
"""

import glob
import os
import statistics
import subprocess
import sys
import time

import torch

THREADS, WARM_UP, ROUNDS = 2, 2, 9
MUCH = 1.5  # from which on a table also has PyTorch as it is
MEMORY_KEPT = {"MALLOC_MMAP_THRESHOLD_": str(2**40), "MALLOC_TRIM_THRESHOLD_": str(2**40),
               "MALLOC_TOP_PAD_": str(2**26)}
with open("/proc/cpuinfo") as cpuinfo:  # without AVX-512 PyTorch's products in bfloat16 are plain loops: not benchmarked
    DTYPES = ("f32", "bf16") if "avx512bw" in cpuinfo.read() else ("f32",)
CORES = "SkylakeX", "Cooperlake", "SapphireRapids", "Zen", "Haswell"

# Debian's OpenBLAS that shares PyTorch's threads: those of another, and PyTorch's own, spin in each other's way.
OPENMP_BLAS = glob.glob("/usr/lib/*/openblas-openmp")

# What Debian's PyTorch compiles with vector instructions calls SLEEF but has no link to it.
SLEEF = {"LD_PRELOAD": path for path in glob.glob("/usr/lib/*/libsleef.so.3")}

# Prints the milliseconds of a product and what follows it, if the product is right, and whose product it is. MKL is a
# part of the official wheels; Debian's PyTorch takes the libblas.so.3 that it finds.
PRODUCT = """
import re, time, torch
torch.set_num_threads(2)
a, b = torch.randn(1024, 768), torch.randn(768, 1024)
assert ((a @ b) - (a.double() @ b.double()).float()).abs().max() < 1e-2
times = []
for _ in range(9):
    start = time.perf_counter()
    torch.nn.functional.gelu(a @ b)
    times.append(time.perf_counter() - start)
maps = set(re.findall(r"/\\S*/lib(?:open)?blas\\S*", open("/proc/self/maps").read()))
print(1e3 * sorted(times)[4], "MKL" if torch.backends.mkl.is_available() else ",".join(sorted(maps)))
"""


def product(environment):
    """Milliseconds, infinity where the product is wrong or the processor has not the instructions; and whose it is."""
    run = subprocess.run([sys.executable, "-c", PRODUCT], env=environment, capture_output=True, text=True)
    ms, blas = run.stdout.split() if run.returncode == 0 else ("inf", "")
    return float(ms), blas


def fastest_environments():
    """The environments for PyTorch with memory kept and as it is, with OpenBLAS's fastest right kernels for this
    processor, which an OPENBLAS_CORETYPE that is set, or OpenBLAS's own choice, may not be; and what was chosen, in
    words."""
    as_is = {**os.environ, **({"LD_LIBRARY_PATH": OPENMP_BLAS[0]} if OPENMP_BLAS else {})}
    _, blas = product(as_is)
    if "openblas" not in blas and blas != "MKL":
        print(f"PyTorch multiplies with {blas}, which is slow; install libopenblas0-openmp", file=sys.stderr)
        sys.exit(2)
    unset = {name: value for name, value in as_is.items() if not name.startswith("OPENBLAS_")}
    choices = {**({"as set": as_is} if unset != as_is else {}), "its own choice": unset}
    if blas != "MKL":
        choices.update({core: {**unset, "OPENBLAS_CORETYPE": core} for core in CORES})
    times = {name: product(environment)[0] for name, environment in choices.items()}
    fastest = min(times, key=times.get)
    return {**choices[fastest], **MEMORY_KEPT}, choices[fastest], f"{blas}, kernels: {fastest}"


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


def be_candidate(candidate, threads=THREADS):
    """Is such a process: candidate.run() gives the milliseconds."""
    torch.set_num_threads(threads)
    for _ in iter(sys.stdin.readline, ""):
        print(candidate.run(), flush=True)


def prepared(how, module):
    """The module as a candidate of TorchPrograms should run it."""
    return torch.compile(module, dynamic=False) if how == "compiled" else module


class TorchPrograms:
    """This script as PyTorch's candidates: `script --torch HOW WORDS`, with HOW eager or compiled, calls
    be_candidate()."""

    def __init__(self):
        self.with_memory_kept, self.as_is, self.products = fastest_environments()

    def __call__(self, *words):
        """By name: with memory kept, as it is, and compiled where PyTorch can."""
        programs = {"PyTorch": self.kept("eager", *words),
                    "as it is": Program(*self.script("eager", *words), environment=self.as_is)}
        if hasattr(torch, "compile"):
            programs["compiled"] = self.kept("compiled", *words)
        return programs

    def kept(self, how, *words):
        return Program(*self.script(how, *words),
                       environment={**self.with_memory_kept, **(SLEEF if how == "compiled" else {})})

    @staticmethod
    def script(*words):
        return sys.executable, "-W", "ignore", sys.argv[0], "--torch", *words

    def __str__(self):
        return (f"PyTorch {torch.__version__} multiplies with {self.products};\nwith memory kept, and as it is where "
                f"that takes {MUCH} times as long or more, for page faults of fresh memory")


def benchmark(candidates):
    """The median of each one's milliseconds, by name, in turn."""
    times = {name: [] for name in candidates}
    for _ in range(WARM_UP + ROUNDS):
        for name, candidate in candidates.items():
            time.sleep(0.1)  # until the other's idle threads no longer spin
            times[name].append(candidate.run())
    for candidate in candidates.values():
        candidate.end()
    return {name: statistics.median(of[WARM_UP:]) for name, of in times.items()}


def ratios(times, ours):
    """Cells of the columns PyTorch, compiled and as it is: how many times as long as ours each takes; as it is where
    that differs much from PyTorch with memory kept."""
    shown = {"PyTorch": True, "compiled": "compiled" in times, "as it is": times["as it is"] > MUCH * times["PyTorch"]}
    return "".join(f"{times[name] / ours:10.2f}" if shows else f"{'':10}" for name, shows in shown.items())


RATIO_COLUMNS = "".join(f"{name:>10}" for name in ("PyTorch", "compiled", "as it is"))
