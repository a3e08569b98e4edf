"""Forks during calls on several threads. The children and their children must compute the same without hanging."""

import os
import signal
import threading
import unittest

os.environ["OMP_NUM_THREADS"] = "3"

import addnorm
import numpy
from attack import Attack

x = numpy.random.default_rng(0).standard_normal((4096, 64)).astype("f4")
y = addnorm.layer_norm(x).tobytes()


def fork(depth):
    """Forks a child that computes and forks in its turn within 20 s. Returns its exit status."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        is_right = addnorm.layer_norm(x).tobytes() == y and (depth == 0 or fork(depth - 1) == 0)
        os._exit(0 if is_right else 1)
    return os.waitpid(child, 0)[1]


class ForksAttack(Attack):
    def test_forks(self):
        is_over = threading.Event()
        wrong = []

        def compute():
            while not is_over.is_set():
                if addnorm.layer_norm(x).tobytes() != y:
                    wrong.append(x)

        threads = [threading.Thread(target=compute) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for _ in self.rounds(1):
                self.assertEqual(fork(self.random.randrange(3)), 0)
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
