"""Explains why the shared library cannot be loaded."""

import pathlib


def explain(file: pathlib.Path, error: OSError) -> str:
    """Returns a message for the error that loading the library has raised."""
    if not file.exists():
        return (f"addnorm is not built: {file.parent} has no {file.name}. "
                "Install the package: `pip install .` in the source of addnorm.")
    return (f"addnorm cannot load its library: {error}. The library is for another system or processor, "
            "or one that it was built with is missing here or has another version. "
            "Install that library, or build the package again.")
