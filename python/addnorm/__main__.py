"""The program `addnorm` with its command line, run in this process. `addnorm --help` lists the commands. The command
`check` exists only here: it is written in Python."""

import os
import shutil
import signal
import sys

from . import _core


def _called() -> str:
    """Returns a shell command that calls this program again."""
    called = sys.argv[0]
    if os.path.basename(called) == "__main__.py":
        return f"{os.path.basename(sys.executable)} -m addnorm"
    name = os.path.basename(called)
    return name if shutil.which(name) == called else called


def main() -> int:
    """Runs the program with the arguments of this process and returns its exit status."""
    for number in signal.SIGINT, signal.SIGPIPE:  # Python's own handlers would run only after the program's end.
        signal.signal(number, signal.SIG_DFL)
    if sys.argv[1:2] == ["check"]:
        from . import _check_command
        return _check_command.run(_called(), sys.argv[2:])
    return _core.run_program(os.fsencode(_called()), [os.fsencode(argument) for argument in sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
