#!/usr/bin/env python3
"""Trains the network of the tutorial's chapter "A small trained model": `make network`.

 scripts/tutorial_network.py FILE

Trains with build/release/bin/addnorm on the King James Bible from Debian's bible-kjv, and writes the parameters to
FILE. They are rounded to a few digits, so that the page has little to load. The result is bit-identical on processors
of the same kind; other processors round matrix products differently.
"""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
from array import array

ROOT = pathlib.Path(__file__).resolve().parents[1]
RUN = ROOT / "build/tutorial-network"
SETTINGS = {
    "layers": 8, "width": 32, "heads": 4, "ff": 64, "head": "tied", "context": 128,
    "batch": 16, "steps": 5000, "lr": 5e-3, "warm-up": 200, "seed": 0, "profile-every": 0,
}
DIGITS = 5  # binary digits of each parameter; bfloat16 has 8


def train():
    shutil.rmtree(RUN, ignore_errors=True)
    RUN.mkdir(parents=True)
    bible = RUN / "bible.txt"
    bible.write_bytes(subprocess.run(["bible", "-f", "Gen1:1-Rev22:21"], check=True, stdout=subprocess.PIPE).stdout)
    flags = [word for name, value in SETTINGS.items() for word in (f"--{name}", str(value))]
    subprocess.run([ROOT / "build/release/bin/addnorm", "train", "--text", bible, "--out", RUN / "run", *flags],
                   check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def rounded(floats):
    """Rounds float32 values to DIGITS binary digits, to nearest with ties to even. Returns them as bfloat16."""
    drop = 24 - DIGITS
    bits = array("I", floats)
    halves = ((b + (1 << (drop - 1)) - 1 + (b >> drop & 1)) >> drop << drop >> 16 for b in bits)
    return array("H", halves).tobytes()


MASK = (1 << 64) - 1


def fingerprint(data, seed=0):
    """The hash of src/run/checkpoint.cc."""

    def mix(z):
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        return z ^ z >> 31

    value = mix(seed + 0x9E3779B97F4A7C15 * (len(data) + 1) & MASK)
    for at in range(0, len(data), 8):
        value = mix(value + int.from_bytes(data[at:at + 8], "little") & MASK)
    return value


def content(metadata, tensors):
    """The checksum that a checkpoint stores of its content."""
    value = 0
    for key, text in sorted(metadata.items()):
        value = fingerprint(text.encode(), fingerprint(key.encode(), value))
    for name, shape, data in tensors:
        value = fingerprint(f"{name}({', '.join(map(str, shape))})".encode(), value)
        value = fingerprint(data, value)
    return f"{value:016x}"


def pack(source, target):
    """Returns the checkpoint `source` in bfloat16."""
    stored = source.read_bytes()
    length, = struct.unpack_from("<Q", stored)
    header = json.loads(stored[8:8 + length])
    metadata = header.pop("__metadata__")
    del metadata["content"]
    entries = sorted(header.items(), key=lambda item: item[1]["data_offsets"])
    tensors = []
    for name, entry in entries:
        begin, end = (8 + length + at for at in entry["data_offsets"])
        tensors.append((name, entry["shape"], rounded(stored[begin:end])))
    metadata["content"] = content(metadata, tensors)
    packed, offset = {"__metadata__": metadata}, 0
    for name, shape, data in tensors:
        packed[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(packed, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    target.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors))


if __name__ == "__main__":
    train()
    pack(RUN / "run/best.safetensors", pathlib.Path(sys.argv[1]))
