"""What was skipped is one line at the end, and failures are still named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from not_covered import not_covered
from patience import HANG

TESTS = Path(__file__).parent


@pytest.mark.parametrize(
    ("reasons", "line"),
    [
        ([], ""),
        (["needs a GPU"], "not covered: 1 test needs a GPU (a machine that has one)"),
        (
            ["/x/data is not here: name the folder that holds data/ with NEARER_SHARED"] * 3
            + ["the model small.gguf is not here: put it into a folder named by NEARER_MODELS"] * 2
            + ["no browser is installed: apt-get install chromium", "could not import 'ray': No module named 'ray'"],
            "not covered: 3 tests need the folder of real data (NEARER_SHARED=DIR), 2 real models (NEARER_MODELS=DIR), "
            "1 a browser (make browser), 1 ray (nearer doctor says how to have it)",
        ),
        (["needs Linux"], "not covered: 1 test needs another kind of machine or user (needs Linux)"),
    ],
)
def test_the_line(reasons: list[str], line: str) -> None:
    assert not_covered(reasons) == line


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run(workers: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["not_covered"]\n')
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('n', range(3))\n"
        "def test_gpu(n): pytest.skip('needs a GPU')\n"
        "def test_missing(): pytest.importorskip('no_such_module')\n"
        "@pytest.mark.skipif(True, reason='no browser is installed')\n"
        "def test_page(): pass\n"
        "def test_wrong(): assert 1 == 2\n"
        "def test_right(): pass\n"
    )
    options = ["-n", workers, "-rfE", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path]
    program = f"import sys, pytest; sys.path.insert(0, {str(TESTS)!r}); sys.exit(pytest.main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *map(str, options)]
    environment = {"PYTHONPATH": str(TESTS), "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, cwd=tmp_path, env=environment)
    lines = done.stdout.splitlines()
    told = "3 tests need a GPU (a machine that has one), 1 a browser (make browser), 1 no_such_module (pip install it)"
    assert f"not covered: {told}" in done.stdout
    assert sum("SKIPPED" in line for line in lines) == 0
    assert sum(line.startswith("FAILED") for line in lines) == 1
    assert "1 failed, 1 passed, 5 skipped" in lines[-1]
