"""The wheel holds the whole package and nothing else, and works where nothing else of the checkout is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from nearer import __version__
from patience import HANG

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "nearer"
BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: setuptools leaves files in the folder that it builds from, and takes old ones from there."""
    pytest.importorskip("setuptools")
    copy, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in ("src", "tests"):  # the tests too: they must not get in
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    build = [sys.executable, "-c", BUILD, str(out)]
    subprocess.run(build, cwd=copy, check=True, capture_output=True, timeout=HANG)
    [path] = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as file:
        return file.namelist()


class TestContents:
    def test_it_has_every_file_of_the_package(self, names: list[str]) -> None:
        files = (path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        wanted = {path.relative_to(SOURCE.parent).as_posix() for path in files}
        packed = {name for name in names if name.startswith("nearer/")}
        assert packed == wanted

    @pytest.mark.parametrize(
        "name", ["py.typed", "bundled/wiki-mini/model.safetensors", "recipes/simcse-wiki-mini.yaml", "look.css"]
    )
    def test_what_is_no_python_is_there(self, name: str, names: list[str]) -> None:
        assert f"nearer/{name}" in names

    def test_it_has_nothing_else(self, names: list[str]) -> None:
        tops = {name.split("/")[0] for name in names}
        assert tops == {"nearer", f"nearer-{__version__}.dist-info"}
        assert [name for name in names if "test" in Path(name).name.split("_") or "conftest" in name] == []

    def test_it_says_what_it_is(self, wheel: Path) -> None:
        assert wheel.name == f"nearer-{__version__}-py3-none-any.whl"  # as nearer/extras.py calls it
        with zipfile.ZipFile(wheel) as file:
            about = file.read(f"nearer-{__version__}.dist-info/METADATA").decode()
            commands = file.read(f"nearer-{__version__}.dist-info/entry_points.txt").decode()
        assert "License-Expression: Apache-2.0" in about
        assert "Project-URL: Changelog, " in about
        assert "nearer = nearer.cli.main:main" in commands


@pytest.mark.slow
class TestInstalled:
    """In an environment of its own. It borrows this one's packages, so that torch is not fetched again; with
    NEARER_WHEEL_TEST=empty it installs all that the wheel asks for, and no extras."""

    @pytest.fixture(scope="class")
    def command(self, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("environment") / "venv"
        self.run(sys.executable, "-m", "venv", folder)
        python = folder / "bin" / "python"
        install = [python, "-m", "pip", "install", "--quiet"]
        if os.environ.get("NEARER_WHEEL_TEST") == "empty":
            self.run(*install, "--constraint", ROOT / "constraints.txt", wheel)
        else:
            self.run(*install, "--no-deps", wheel)
            [site] = folder.glob("lib/python*/site-packages")
            # a folder in a .pth file comes last on the path, and its own .pth files are not read: the checkout,
            # which is installed there by one, is not seen
            (site / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
        return folder / "bin" / "nearer"

    @staticmethod
    def run(*command: object, cwd: Path | None = None, code: int = 0) -> str:
        """What it printed; if it is to fail, its error."""
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NEARER_MODELS")}
        done = subprocess.run(
            [str(part) for part in command],
            cwd=cwd,
            env={**kept, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
            timeout=HANG,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr if code else done.stdout

    def test_it_is_the_wheel_that_runs(self, command: Path, tmp_path: Path) -> None:
        where = self.run(command.parent / "python", "-c", "import nearer; print(nearer.__file__)", cwd=tmp_path)
        assert Path(where.strip()).is_relative_to(command.parents[1])
        assert self.run(command, "--version", cwd=tmp_path) == f"nearer {__version__}\n"

    def test_doctor(self, command: Path, tmp_path: Path) -> None:
        assert self.run(command, "doctor", cwd=tmp_path).splitlines()[-1].strip() == "ready to use"

    def test_training_on_own_text(self, command: Path, tmp_path: Path) -> None:
        things = ("train", "boat", "horse", "kettle", "garden", "letter", "winter", "market")
        text = "".join(f"The {one} is near the {other}.\n" for one in things for other in things)
        (tmp_path / "mine.txt").write_text(text, encoding="utf-8")
        self.run(command, "train", "simcse-wiki-mini", "--corpus", "mine.txt", "--max-steps", 2, cwd=tmp_path)
        [model] = tmp_path.glob("runs/*/model")
        assert self.run(command, "similarity", model, "A boat.", "A boat.", cwd=tmp_path).strip() == "1.0000"

    def test_the_demos_first_step(self, command: Path, tmp_path: Path) -> None:
        shown = self.run(command, "demo", "--out", "demo", "--max-steps", 1, cwd=tmp_path)
        assert "SimCSE, summary and body" in shown
        assert (tmp_path / "demo" / "pairs" / "model" / "model.safetensors").exists()

    def test_measures_need_a_checkout(self, command: Path, tmp_path: Path) -> None:
        told = self.run(command, "bench", "train", cwd=tmp_path, code=1)
        assert told.startswith("error: nearer bench needs a checkout")
        assert told.count("\n") == 1
