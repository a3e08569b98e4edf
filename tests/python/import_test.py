"""Error messages of `import addnorm` if its library cannot be loaded, and what the library depends on."""

import pathlib
import re
import shutil
import subprocess
import sys

import addnorm
import pytest
from addnorm import _library

COMPILED = _library.FILE


@pytest.fixture
def package(tmp_path):
    return pathlib.Path(shutil.copytree(pathlib.Path(addnorm.__file__).parent, tmp_path / "addnorm",
                                        ignore=shutil.ignore_patterns("__pycache__")))


def error_of_import(package):
    result = subprocess.run([sys.executable, "-B", "-c", "import addnorm"], cwd=package.parent,
                            env={"PYTHONPATH": str(package.parent)}, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1, result
    return result.stderr.splitlines()[-1]


def test_a_source_tree_is_not_built(package):
    (package / COMPILED.name).unlink()
    error = error_of_import(package)
    assert error.startswith(f"ImportError: addnorm is not built: {package} has no {COMPILED.name}")
    assert "pip install" in error


@pytest.mark.parametrize("library", [b"libstdc++.so.6", b"libc.so.6"])
def test_a_missing_library_is_named(package, library):
    missing = library.replace(b"lib", b"lab")
    content = COMPILED.read_bytes()
    assert library in content
    (package / COMPILED.name).unlink()  # may be a link to the original
    (package / COMPILED.name).write_bytes(content.replace(library, missing))
    error = error_of_import(package)
    assert error.startswith(f"ImportError: addnorm cannot load its library: {missing.decode()}: cannot open")


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"MZ" * 1000])
def test_a_file_that_is_no_library_is_named(package, content):
    (package / COMPILED.name).unlink()
    (package / COMPILED.name).write_bytes(content)
    assert COMPILED.name in error_of_import(package)


def test_the_library_fits_every_python():
    """It uses nothing of Python or NumPy, whose interfaces differ between versions."""
    symbols = subprocess.run(["readelf", "--dyn-syms", "--wide", COMPILED], stdout=subprocess.PIPE, text=True,
                             check=True).stdout
    assert "addnorm_python_call" in symbols
    assert not re.search(r"\b_?Py[A-Z_]\w+", symbols)
    assert b"_ARRAY_API" not in COMPILED.read_bytes()  # by this name extensions find NumPy's C interface
