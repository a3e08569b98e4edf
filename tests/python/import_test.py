"""Error messages of `import addnorm` if the compiled part cannot be loaded, and its library dependencies."""

import pathlib
import shutil
import subprocess
import sys

import addnorm
import pytest
from addnorm import _core

COMPILED = pathlib.Path(_core.__file__)


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


@pytest.mark.parametrize("name", ["_core.cpython-38-x86_64-linux-gnu.so", "_core.cpython-311d-x86_64-linux-gnu.so",
                                  "_core.cpython-313t-x86_64-linux-gnu.so", "_core.pypy310-pp73-x86_64-linux-gnu.so"])
def test_a_package_for_another_python_names_both(package, name):
    (package / COMPILED.name).rename(package / name)
    error = error_of_import(package)
    assert error.startswith("ImportError: addnorm is built for another Python")
    assert name in error and COMPILED.name in error and sys.executable in error


@pytest.mark.parametrize("library", [b"libstdc++.so.6", b"libc.so.6"])
def test_a_missing_library_is_named(package, library):
    missing = library.replace(b"lib", b"lab")
    content = COMPILED.read_bytes()
    assert library in content
    (package / COMPILED.name).unlink()  # may be a link to the original
    (package / COMPILED.name).write_bytes(content.replace(library, missing))
    error = error_of_import(package)
    assert error.startswith(f"ImportError: addnorm cannot load its compiled part: {missing.decode()}: cannot open")


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"MZ" * 1000])
def test_a_file_that_is_no_library_is_named(package, content):
    (package / COMPILED.name).unlink()
    (package / COMPILED.name).write_bytes(content)
    assert COMPILED.name in error_of_import(package)


def test_no_struct_of_numpy_is_compiled_in():
    content = COMPILED.read_bytes()
    for name in b"_ARRAY_API", b"multiarray":  # by these names extensions find NumPy's C interface
        assert name not in content
