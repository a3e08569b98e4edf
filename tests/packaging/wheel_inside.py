"""Uses the package in an environment with its wheel and NumPy alone: wheel_inside.py WHEEL SOURCE"""

import os
import re
import resource
import subprocess
import sys
import zipfile

import addnorm
import numpy as np

wheel, source = sys.argv[1:]
MIB = 2**20
MOST_BYTES, MOST_MS = 12 * MIB, 150


def check(holds, sentence):
    if not holds:
        sys.exit(f"wheel: {sentence}")


def import_ms():
    """Returns Python's measurement, which other programs lengthen, and the processor time
    minus that of a bare start."""
    def run(code):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        python = [sys.executable, "-I", "-X", "importtime", "-c", code]
        result = subprocess.run(python, capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return result.stderr, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    times, processor = run("import addnorm")
    line, = re.findall(r"\| +(\d+) \| addnorm$", times, re.M)
    return int(line) / 1000, 1000 * (processor - run("pass")[1])


# The wheel itself.
size = os.path.getsize(wheel)
check(size < MOST_BYTES, f"{size / MIB:.1f} MiB, must be less than {MOST_BYTES // MIB}")
notices = zipfile.ZipFile(wheel).read("addnorm/third-party-notices.txt").decode()
check(all(name in notices for name in ("libfmt-dev", "libhwy-dev", "libgomp1")), "the notices of others are not whole")
check("-manylinux" in wheel, f"{os.path.basename(wheel)} is not tagged for other machines")
with zipfile.ZipFile(wheel) as files:
    names = files.namelist()
    metadata = files.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode()
    libraries = {n: files.read(n) for n in names if ".so" in n}
for part in "addnorm/py.typed", "addnorm/_core.py", "addnorm/torch/__init__.py":
    check(part in names, f"{part} is missing")
for line in f"Version: {addnorm.__version__}", "Requires-Python: >=3.9", "License-Expression: Apache-2.0":
    check(f"\n{line}\n" in metadata, f"its metadata does not say {line!r}")
for name, content in libraries.items():
    for folder in f"{source}/src/", f"{source}/include/", f"{source}/build/":
        check(folder.encode() not in content, f"{name} names the folder {folder}")
    check(b".debug_info" not in content and b".symtab" not in content, f"{name} is not stripped")

# The libraries that it loads: its own, and those of every Linux.
with open("/proc/self/maps") as maps:
    loaded = {line.split()[-1] for line in maps if ".so" in line}
home = os.path.dirname(os.path.dirname(addnorm.__file__))
ours = sorted(os.path.basename(path) for path in loaded if path.startswith(home + "/addnorm"))
check(any("libgomp" in name for name in ours), f"OpenMP is not among {ours}")
check(not any("dnnl" in path for path in loaded), "oneDNN is loaded")
check("torch" not in sys.modules, "PyTorch is imported")

# The program, as a command and as a module.
command = os.path.join(os.path.dirname(sys.executable), "addnorm")
profile = f"{source}/tests/golden/profiles/gpt2_residual_missing_1_attention.jsonl"
for program in [command], [sys.executable, "-I", "-m", "addnorm"]:
    version = subprocess.run([*program, "--version"], capture_output=True, text=True)
    check(version.stdout.split()[-1:] == [addnorm.__version__], f"{program} --version gives {version}")
    doctor = subprocess.run([*program, "doctor", profile], capture_output=True, text=True)
    check(doctor.returncode == 1 and "residual-missing" in doctor.stdout, f"{program} doctor gives {doctor}")
rules = {finding.rule for finding in addnorm.Report.read(profile).findings}
check("residual-missing" in rules, f"Report.read finds {rules}")

# The results of computations.
rng = np.random.default_rng(0)
x, branch = rng.standard_normal((2, 300, 64)).astype(np.float32)
y, s, statistics = addnorm.add_norm(x, branch)
wide = x.astype(float) + branch
truth = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
check(np.abs(y - truth).max() < 1e-5, "add_norm is wrong")
dx, _, _ = addnorm.add_norm_backward(np.ones_like(y), s, statistics)
check(np.abs(dx).max() < 1e-5, "a gradient of 1 must vanish in LayerNorm's backward")
output = addnorm.trace([1, 2, 3, 4])["output"]
check(abs(output[3] - 1.3416) < 1e-3, f"trace gives {output}")

measured, processor = (min(times) for times in zip(*(import_ms() for _ in range(10))))
check(processor < MOST_MS, f"importing takes {processor:.0f} ms, must take less than {MOST_MS}")
print(f"{os.path.basename(wheel)}: {size / MIB:.2f} MiB; imported in {measured:.0f} ms, {processor:.0f} ms of the "
      f"processor's, with NumPy {np.__version__}; {', '.join(ours)}")
