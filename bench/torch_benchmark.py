"""Shared by the benchmarks against PyTorch: candidates in separate processes that run alternately, and the environment
in which PyTorch is fastest.

PyTorch allocates its results anew in every step. By default the C library returns large blocks of memory to the system,
and page faults of fresh memory take much of a step. PyTorch is therefore measured with memory kept, and once more with
the defaults. From PyTorch 2 on, torch.compile is also a candidate, with memory kept.
"""

import glob
import os
import statistics
import subprocess
import sys
import time

import torch

THREADS, WARM_UP, ROUNDS = 2, 2, 9
MUCH = 1.5  # if the default environment is slower by this, the table shows it too
MEMORY_KEPT = {"MALLOC_MMAP_THRESHOLD_": str(2**40), "MALLOC_TRIM_THRESHOLD_": str(2**40),
               "MALLOC_TOP_PAD_": str(2**26)}
with open("/proc/cpuinfo") as cpuinfo:  # without AVX-512, PyTorch's bfloat16 products are plain loops
    DTYPES = ("f32", "bf16") if "avx512bw" in cpuinfo.read() else ("f32",)
CORES = "SkylakeX", "Cooperlake", "SapphireRapids", "Zen", "Haswell"

# The OpenBLAS of Debian that shares PyTorch's threads. The threads of another one and PyTorch's own would
# disturb each other by spinning.
OPENMP_BLAS = glob.glob("/usr/lib/*/openblas-openmp")

# The vectorized code of Debian's PyTorch calls SLEEF without being linked to it.
SLEEF = {"LD_PRELOAD": path for path in glob.glob("/usr/lib/*/libsleef.so.3")}

# Prints the milliseconds of a product with its follow-up operations, if the product is right, and the library that
# computes it. MKL is part of the official wheels; Debian's PyTorch uses the first libblas.so.3.
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
    """Returns the milliseconds, infinity if the product is wrong or an instruction is missing, and the library."""
    run = subprocess.run([sys.executable, "-c", PRODUCT], env=environment, capture_output=True, text=True)
    ms, blas = run.stdout.split() if run.returncode == 0 else ("inf", "")
    return float(ms), blas


def fastest_environments():
    """Returns the environments for PyTorch with memory kept and with the defaults, and a description of them.
    Both use OpenBLAS's fastest correct kernels for this processor, which may differ from OPENBLAS_CORETYPE and
    from OpenBLAS's own choice."""
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
    """A process that prints a line of milliseconds for each line that it reads. The first
    number is the compared one."""

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
        """The median of each number of the lines."""
        return [statistics.median(numbers) for numbers in zip(*self.lines[WARM_UP:])]

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def be_candidate(candidate, threads=THREADS):
    """Runs this process as a candidate. candidate.run() returns the milliseconds."""
    torch.set_num_threads(threads)
    for _ in iter(sys.stdin.readline, ""):
        print(candidate.run(), flush=True)


def prepared(how, module):
    """Returns the module in the form that a candidate of TorchPrograms runs."""
    return torch.compile(module, dynamic=False) if how == "compiled" else module


class TorchPrograms:
    """Starts this script as PyTorch's candidates: `script --torch HOW WORDS`, with HOW eager or
    compiled, calls be_candidate()."""

    def __init__(self):
        self.with_memory_kept, self.as_is, self.products = fastest_environments()

    def __call__(self, *words):
        """Returns the candidates by name: with memory kept, with the defaults, and compiled if PyTorch supports it."""
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
    """Returns the median milliseconds of each candidate by name. The candidates run alternately."""
    times = {name: [] for name in candidates}
    for _ in range(WARM_UP + ROUNDS):
        for name, candidate in candidates.items():
            time.sleep(0.1)  # until the other process's idle threads stop spinning
            times[name].append(candidate.run())
    for candidate in candidates.values():
        candidate.end()
    return {name: statistics.median(of[WARM_UP:]) for name, of in times.items()}


def ratios(times, ours):
    """Returns the cells of the columns PyTorch, compiled and as it is: the time of each relative to ours. The last one
    is shown only if it differs much from PyTorch with memory kept."""
    shown = {"PyTorch": True, "compiled": "compiled" in times, "as it is": times["as it is"] > MUCH * times["PyTorch"]}
    return "".join(f"{times[name] / ours:10.2f}" if shows else f"{'':10}" for name, shows in shown.items())


RATIO_COLUMNS = "".join(f"{name:>10}" for name in ("PyTorch", "compiled", "as it is"))
