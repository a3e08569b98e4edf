"""A progress line on the terminal for long work."""

from __future__ import annotations

import sys
import threading
import time
from typing import IO, Any

from ._undo import Exit, Undo

_SECONDS_BEFORE, _SECONDS_BETWEEN = 5.0, 1.0


class Progress:
    """Shows the current work and its duration on standard error, from the fifth second on. The line is removed at the
    end. If standard error is not a terminal, nothing is shown and no thread runs.

        with Progress("addnorm.check") as progress:
            progress.doing = "runs the model"
    """

    def __init__(self, name: str) -> None:
        self.doing = ""
        self._name, self._is_over = name, threading.Event()
        self._undo = Undo()

    def __enter__(self) -> Progress:
        terminal = sys.stderr
        if terminal is not None and terminal.isatty():
            thread = threading.Thread(target=self._show, args=(terminal, time.monotonic()), daemon=True)
            self._undo.callback(self._stop, thread)
            thread.start()
        return self

    def _stop(self, thread: threading.Thread) -> None:
        self._is_over.set()
        if thread.is_alive():
            thread.join()

    def _leave(self, *error: Any) -> None:
        self._undo.close()

    __exit__ = Exit(_leave)

    def _show(self, terminal: IO[str], begin: float) -> None:
        try:
            if self._is_over.wait(_SECONDS_BEFORE):
                return
            while True:
                seconds = time.monotonic() - begin
                terminal.write(f"\r\x1b[K{self._name}: {self.doing}, {seconds:.0f} s")
                terminal.flush()
                if self._is_over.wait(_SECONDS_BETWEEN):
                    break
            terminal.write("\r\x1b[K")
            terminal.flush()
        except (OSError, ValueError):  # the terminal is closed
            return
