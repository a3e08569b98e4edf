"""Explains why the compiled part of the package, _core, cannot be loaded."""

import importlib.machinery
import pathlib
import sys


def explain(error: ImportError) -> str:
    """Returns a message for the error that `import addnorm._core` has raised."""
    folder = pathlib.Path(__file__).parent
    compiled = sorted(file.name for file in folder.glob("_core.*") if file.suffix != ".pyi")
    loadable = ["_core" + suffix for suffix in importlib.machinery.EXTENSION_SUFFIXES]
    if not compiled:
        return (f"addnorm is not built: {folder} has no {loadable[0]}. "
                "Install the package: `pip install .` in the source of addnorm.")
    if not set(compiled) & set(loadable):
        return (f"addnorm is built for another Python: {folder} has {', '.join(compiled)}, and "
                f"{sys.executable} loads {loadable[0]}. Install the package for this Python: "
                f"`{sys.executable} -m pip install .` in the source of addnorm.")
    return (f"addnorm cannot load its compiled part: {error}. A library that it was built with is missing here, "
            "or is another version. Install that library, or build the package again.")
