"""Attacks running programs: kill -9 and resuming, full disks, small stacks, many at the same time."""

import concurrent.futures
import contextlib
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time
import unittest

from attack import ENVIRONMENT, GOLDEN, LAUNCHER, PROGRAM, Attack

SMALL = ["--layers", "2", "--width", "16", "--heads", "2", "--context", "16", "--batch", "2", "--steps", "60",
         "--validate-every", "20", "--checkpoint-every", "7"]


def children(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError):  # the thread has ended
            found += map(int, task.read_text().split())
    return found


class RunsAttack(Attack):
    def setUp(self):
        super().setUp()
        (self.folder / "text").write_text("".join(f"sentence {i * i % 97} of this text. " for i in range(400)))

    def train(self, *words, **options):
        return self.run_program("train", "--text", "text", *SMALL, *words, **options)

    def checkpoint(self, run):
        return (self.folder / run / "checkpoint.safetensors").read_bytes()

    def test_kills(self):
        """A run that is killed at any moment and resumed gives the same bits as an uninterrupted run."""
        begin = time.monotonic()
        self.assertEqual(self.train("--out", "whole").returncode, 0)
        took = time.monotonic() - begin
        killed = 0
        for _ in self.rounds(0.4):
            shutil.rmtree(self.folder / "run", ignore_errors=True)
            for _ in range(self.random.randrange(1, 4)):
                resume = ["--resume"] if (self.folder / "run/checkpoint.safetensors").exists() else []
                words = [PROGRAM, "train", "--text", "text", *SMALL, "--out", "run", *resume]
                process = subprocess.Popen([*LAUNCHER, *words], cwd=self.folder, env=ENVIRONMENT,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(self.random.uniform(0, took))
                victims = children(process.pid) if LAUNCHER else [process.pid]
                with contextlib.suppress(IndexError, ProcessLookupError):  # it has ended, or not yet begun
                    os.kill(self.random.choice(victims), signal.SIGKILL)
                    killed += 1
                process.wait(timeout=60)
            resume = ["--resume"] if (self.folder / "run/checkpoint.safetensors").exists() else []
            ended = self.train("--out", "run", *resume)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertEqual(self.checkpoint("run"), self.checkpoint("whole"))
        self.assertGreater(killed, 0)

    def test_full_disks(self):
        """If a file cannot grow, the program prints one line and leaves the previous content intact."""
        self.assertEqual(self.train("--out", "whole").returncode, 0)
        size = len(self.checkpoint("whole"))
        for _ in self.rounds(0.2):
            shutil.rmtree(self.folder / "run", ignore_errors=True)
            most = self.random.choice([0, 1, 100, 1000, 4096, size - 1, self.random.randrange(size)])
            ended = self.train("--out", "run", limits=[(resource.RLIMIT_FSIZE, most)])
            self.assertEqual(ended.returncode, 2, ended.stderr)
            left = [file.name for file in (self.folder / "run").iterdir() if ".tmp" in file.name]
            self.assertEqual(left, [])
            resume = ["--resume"] if (self.folder / "run/checkpoint.safetensors").exists() else []
            self.assertEqual(self.train("--out", "run", *resume).returncode, 0)
            self.assertEqual(self.checkpoint("run"), self.checkpoint("whole"))

    def test_small_stacks(self):
        commands = [["doctor", GOLDEN / "models/gpt2"], ["lab", "gradient-flow"], ["trace", "1", "2", "3"],
                    ["doctor", GOLDEN / "profiles/gpt2_sound_0_0.jsonl", "--html", "page.html"], ["placements"]]
        for kilobytes in 256, 1024:
            for words in commands:
                ended = self.run_program(*words, limits=[(resource.RLIMIT_STACK, kilobytes << 10)])
                self.assertIn(ended.returncode, (0, 1), (words, kilobytes, ended.stderr))
                self.count += 1

    def test_many_at_a_time(self):
        """One of many processes takes a run's folder. A file that many write has the complete content of one."""
        self.assertEqual(self.train("--out", "whole").returncode, 0)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for i in self.rounds(0.2):
                run = f"run{i}"
                ended = list(pool.map(lambda _: self.train("--out", run), range(8)))
                taken = [b"in use by another process" in e.stderr or b"--resume" in e.stderr
                         for e in ended if e.returncode == 2]
                self.assertTrue(all(taken), [e.stderr for e in ended])
                self.assertIn(0, [e.returncode for e in ended])
                self.assertEqual(self.checkpoint(run), self.checkpoint("whole"))
                files = list(pool.map(lambda _: self.run_program("doctor", GOLDEN / "profiles/gpt2_sound_0_0.jsonl",
                                                                 "--html", "page.html").returncode, range(8)))
                self.assertEqual(set(files), {0})
                self.assertTrue((self.folder / "page.html").read_text().rstrip().endswith("</html>"))


if __name__ == "__main__":
    unittest.main()
