"""Attacks the readers of files: mutations of every format, special files, files that shrink."""

import json
import os
import resource
import shutil
import socket
import struct
import subprocess
import threading
import unittest

from attack import GOLDEN, PROGRAM, Attack

NUMBERS = [0, 1, -1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**64 - 1, 10**400, 0.5, 1e308, float("nan")]
MEMORY = [(resource.RLIMIT_AS, 4 << 30)]


def npy(shape, dtype="<f4", order=False):
    header = f"{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    header += b" " * (53 - len(header) % 64 if len(header) < 53 else 117 - len(header)) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(range(96)) * 2


class ReadersAttack(Attack):
    def bytes_of(self, data):
        """Changes, cuts, repeats or swaps bytes, makes numbers extreme or opens brackets, anywhere in the data."""
        data = bytearray(data)
        for _ in range(self.random.choice([1, 1, 2, 8])):
            at = self.random.randrange(len(data) + 1)
            size = self.random.choice([1, 2, 8, 100])
            kind = self.random.randrange(6)
            if kind == 0:
                del data[at:at + self.random.choice([size, len(data)])]
            elif kind == 1:
                data[at:at + size] = self.random.randbytes(size)
            elif kind == 2:
                data[at:at] = data[at:at + size] * self.random.randrange(1, 50)
            elif kind == 3:
                extreme = self.random.choice([0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1])
                data[at & ~7:(at & ~7) + 8] = struct.pack("<Q", extreme)
            elif kind == 4:
                data[at:at] = self.random.choice([b"[", b'{"a":', b"(", b"[{"]) * 100_000
            elif data:
                data[at % len(data)] ^= 1 << self.random.randrange(8)
        return bytes(data)

    def json_of(self, value):
        """Replaces, removes or duplicates one value of a document, at any depth."""
        if isinstance(value, (dict, list)) and value and self.random.random() < 0.9:
            changed = value.copy()
            key = self.random.choice(list(value) if isinstance(value, dict) else range(len(value)))
            if self.random.random() < 0.15:
                del changed[key]
            elif isinstance(value, dict) and self.random.random() < 0.1:
                changed["x" * self.random.choice([1, 100_000])] = value[key]
            else:
                changed[key] = self.json_of(value[key])
            return changed
        return self.random.choice([*NUMBERS, None, True, "", "x" * 1000, "\0", [], {}, [[]] * 1000, [value], {"": value}])

    def header_of(self, data):
        """Changes the header of a safetensors file."""
        size = struct.unpack("<Q", data[:8])[0]
        header = json.dumps(self.json_of(json.loads(data[8:8 + size]))).encode()
        return struct.pack("<Q", len(header)) + header + data[8 + size:]

    def test_safetensors(self):
        models = sorted((GOLDEN / "models").glob("*/model.safetensors"))
        for _ in self.rounds(0.2):
            source = self.random.choice(models)
            shutil.copytree(source.parent, self.folder / "model", dirs_exist_ok=True)
            change = self.random.choice([self.bytes_of, self.header_of])
            (self.folder / "model" / source.name).write_bytes(change(source.read_bytes()))
            self.run_program("doctor", "model", limits=MEMORY)
            shutil.rmtree(self.folder / "model")

    def test_gguf(self):
        models = sorted((GOLDEN / "gguf").glob("*.gguf"))
        for _ in self.rounds(0.15):
            data = self.random.choice(models).read_bytes()
            (self.folder / "model.gguf").write_bytes(self.bytes_of(data[:2000]) + data[2000:])
            self.run_program("doctor", "model.gguf", limits=MEMORY)

    def test_config_json(self):
        models = sorted(file.parent for file in (GOLDEN / "models").glob("*/config.json"))
        for _ in self.rounds(0.15):
            source = self.random.choice(models)
            shutil.copytree(source, self.folder / "model", dirs_exist_ok=True)
            config = (source / "config.json").read_text()
            (self.folder / "model/config.json").write_text(json.dumps(self.json_of(json.loads(config))))
            self.run_program("doctor", "model", limits=MEMORY)
            shutil.rmtree(self.folder / "model")

    def test_profiles(self):
        profiles = sorted((GOLDEN / "profiles").glob("*.jsonl"))
        for _ in self.rounds(0.15):
            lines = self.random.choice(profiles).read_text().splitlines()
            at = self.random.randrange(min(len(lines), self.random.choice([1, 100])))
            lines[at] = json.dumps(self.json_of(json.loads(lines[at])))
            text = "\n".join(lines).encode()
            (self.folder / "p.jsonl").write_bytes(self.bytes_of(text) if self.random.random() < 0.3 else text)
            self.run_program("doctor", "p.jsonl", *self.random.choice([[], ["--json"]]), limits=MEMORY)

    def test_npy(self):
        shapes = ["(6, 8)", "(48,)", "()", "(0, 3)", "(3, 0)", "(2, 3, 8)", "(-1, 3)", "(2**60, 8)", "(18446744073709551615, 2)",
                  "(4294967296, 4294967296)", "(6, 8", "(6.0, 8)", "(1,) * 99", str((1,) * 200)]
        dtypes = ["<f4", "<f8", ">f4", "<f2", "|O", "<i8", "<U9", "f", ""]
        for _ in self.rounds(0.1):
            data = npy(self.random.choice(shapes), self.random.choice([dtypes[0], *dtypes]), self.random.random() < 0.1)
            (self.folder / "x.npy").write_bytes(self.bytes_of(data) if self.random.random() < 0.7 else data)
            self.run_program("norm", "--input", "x.npy", "--output", "y.npy", limits=MEMORY)

    def test_checkpoints_and_settings(self):
        (self.folder / "text").write_text("a text of few words " * 100)
        self.run_program("train", "--text", "text", "--out", "run", "--layers", "1", "--width", "8", "--heads", "1",
                         "--context", "8", "--batch", "1", "--steps", "2")
        names = ["checkpoint.safetensors", "config.json", "metrics.jsonl", "profile.jsonl"]
        whole = {name: (self.folder / "run" / name).read_bytes() for name in names}
        for _ in self.rounds(0.15):
            name = self.random.choice(names)
            data = whole[name]
            is_header = name == names[0] and self.random.random() < 0.5
            (self.folder / "run" / name).write_bytes(self.header_of(data) if is_header else self.bytes_of(data))
            words = self.random.choice([["doctor", "run"], ["generate", "run", "--prompt", "a", "--tokens", "1"],
                                        ["train", "--out", "run", "--resume", "--steps", "3"]])
            self.run_program(*words, limits=MEMORY)
            for other, content in whole.items():
                (self.folder / "run" / other).write_bytes(content)

    def test_special_files(self):
        """Folders, circular links, sockets, devices, endless pipes, and files with a hole of a terabyte."""
        folder = self.folder
        (folder / "folder").mkdir()
        (folder / "circle").symlink_to("circle")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / "socket"))
        (folder / "hole").touch()
        os.truncate(folder / "hole", 1 << 40)
        for name in "folder", "circle", "socket", "hole", "/dev/null", "/proc/self/mem":
            for suffix in ".npy", ".jsonl", ".gguf", ".safetensors", "":
                link = folder / ("link" + suffix)
                link.symlink_to(name)
                words = self.random.choice([["doctor", link], ["norm", "--input", link, "--output", "y.npy"],
                                            ["train", "--text", link, "--out", "run", "--steps", "1"]])
                self.assertEqual(self.run_program(*words, limits=MEMORY).returncode, 2, words)
                link.unlink()
                self.count += 1
        self.assertIn(b"gives more than", self.run_program("norm", "--input", "/dev/zero", "--output", "y.npy").stderr)
        with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
            ended = subprocess.run([PROGRAM, "train", "--text", "/dev/stdin", "--out", "run"], cwd=folder,
                                   stdin=endless.stdout, capture_output=True)
            self.assertIn(b"gives more than", ended.stderr)
            endless.kill()

    def test_files_that_shrink(self):
        """Files shrink at a random moment while a model is read."""
        source = GOLDEN / "models/gpt2"
        shutil.copytree(source, self.folder / "model")
        file = self.folder / "model/model.safetensors"
        data = file.read_bytes()
        for _ in self.rounds(0.1):
            file.write_bytes(data)
            size = self.random.randrange(len(data))
            shrink = threading.Timer(self.random.uniform(0, 0.03), os.truncate, (file, size))
            shrink.start()
            self.run_program("doctor", "model")
            shrink.join()


if __name__ == "__main__":
    unittest.main()
