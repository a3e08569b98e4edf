"""Shared by the attacks: their duration, limits on the program, and a server to attack.

ADDNORM_PROGRAM names the program, and ADDNORM_LAUNCHER its launcher (such as "mpirun -n 2"; default: none).
ADDNORM_ATTACK_SECONDS is the duration of a module (default 10), ADDNORM_ATTACK_SEED the seed (default: the time). A
failure prints the seed that reproduces it.
"""

import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["ADDNORM_PROGRAM"]
LAUNCHER = os.environ.get("ADDNORM_LAUNCHER", "").split()
SECONDS = float(os.environ.get("ADDNORM_ATTACK_SECONDS", 10))
SEED = int(os.environ.get("ADDNORM_ATTACK_SEED", time.time_ns()))
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}  # results of a run depend on its number of threads
GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


class Attack(unittest.TestCase):
    """A test with its own folder and random generator."""

    share = 1.0  # the share of the module's seconds that its loop takes

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.random = random.Random(f"{SEED} {self.id()}")
        self.count = 0

    def tearDown(self):
        print(f"{self.id()}: {self.count} attacks, seed {SEED}", flush=True)

    def rounds(self, share):
        """Counts rounds, at least one, until the share of the module's time is over."""
        end = time.monotonic() + share * SECONDS
        while True:
            yield self.count
            self.count += 1
            if time.monotonic() >= end:
                return

    def run_program(self, *words, limits=(), timeout=60, **options):
        """Runs the program. It must end with status 0, 1 or, with one short line, 2."""
        def set_limits():
            for limit, most in limits:
                resource.setrlimit(limit, (most, most))
        ended = subprocess.run([*LAUNCHER, PROGRAM, *map(str, words)], cwd=self.folder, timeout=timeout,
                               preexec_fn=set_limits, stdin=subprocess.DEVNULL, capture_output=True,
                               env=ENVIRONMENT, **options)
        what = (words, ended.returncode, ended.stderr[-2000:])
        self.assertIn(ended.returncode, (0, 1, 2), what)
        if ended.returncode == 2:
            self.assertRegex(ended.stderr, rb"\A[^\n]{1,300}\n\Z", what)
        return ended


class Server:
    """A running `addnorm serve`."""

    def __init__(self, folder, *flags):
        self.process = subprocess.Popen([PROGRAM, "serve", "--port", "0", "--folder", folder, *flags],
                                        stdout=subprocess.PIPE, text=True)
        self.port = int(re.search(r"127\.0\.0\.1:(\d+)", self.process.stdout.readline())[1])

    def memory(self):
        """The server's resident memory in kB."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1])

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.process.stdout.close()
