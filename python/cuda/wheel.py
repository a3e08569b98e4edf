#!/usr/bin/env python3
"""Packs the wheel addnorm-cuda: wheel.py LIBRARY NOTICES FOLDER

The wheel has the package addnorm_cuda, which consists of Python files and the shared LIBRARY. The oldest glibc that the
library's symbols allow becomes part of its name. SOURCE_DATE_EPOCH is the time of its files, and CUDA_MAJOR the version
of CUDA that the driver must support. Prints its path.
"""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The libraries that manylinux expects on every system.
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libgcc_s.so.1",
          "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}

METADATA = """Metadata-Version: 2.1
Name: addnorm-cuda
Version: {version}
Summary: The kernels of addnorm for NVIDIA GPUs
License: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.9
Classifier: Environment :: GPU :: NVIDIA CUDA
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Description-Content-Type: text/markdown

One shared library with the CUDA kernels of [addnorm](https://pypi.org/project/addnorm/): Add & Norm and streams of
several lanes, forward and backward. `addnorm_cuda.library()` returns its path. It needs a driver for CUDA {cuda} and
a GPU of compute capability 8.x, 9.0 or 10.x. The code for 8.x and 10.x was never run.
"""


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def platform_tag(library):
    """Returns the wheel's platform. Exits if the library needs another library than those of manylinux."""
    headers = output("objdump", "-p", library)
    others = set(re.findall(r"NEEDED +(\S+)", headers)) - SYSTEM
    if others:
        sys.exit(f"{library} needs {', '.join(sorted(others))}")
    major, minor = max(tuple(map(int, version)) for version in re.findall(r"GLIBC_(\d+)\.(\d+)", headers))
    return f"manylinux_{major}_{minor}_{os.uname().machine}"


def pack(library, notices, folder):
    version = re.search(r"project\(addnorm VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    tag = f"py3-none-{platform_tag(library)}"
    info = f"addnorm_cuda-{version}.dist-info"
    files = {f"addnorm_cuda/{file.name}": file.read_bytes()
             for file in sorted((ROOT / "python/cuda/addnorm_cuda").iterdir()) if file.suffix in {".py", ".typed"}}
    files |= {
        "addnorm_cuda/libaddnorm_cuda.so": pathlib.Path(library).read_bytes(),
        f"{info}/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
        f"{info}/licenses/third-party-notices.txt": pathlib.Path(notices).read_bytes(),
        f"{info}/METADATA": METADATA.format(version=version, cuda=os.environ["CUDA_MAJOR"]).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: addnorm\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
    }
    record = [f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
              for name, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()

    path = pathlib.Path(folder) / f"addnorm_cuda-{version}-{tag}.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    when = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return path


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print(pack(*sys.argv[1:]))
