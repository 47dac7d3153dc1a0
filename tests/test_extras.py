"""How to install an optional package: nearer is on no index, so the command names the checkout or the wheel."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import nearer
from nearer import extras
from nearer.errors import MissingExtraError

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.py")]


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package as it lies in site-packages, without a checkout around it."""
    monkeypatch.setattr(extras, "__file__", str(tmp_path / "lib" / "site-packages" / "nearer" / "extras.py"))


def test_in_a_checkout_the_command_names_it() -> None:
    assert extras.checkout() == ROOT
    assert extras.install_command("serve") == f"pip install -e '{ROOT}[serve]'"
    assert extras.reinstall_command() == f"pip install --force-reinstall --no-deps -e '{ROOT}'"


@pytest.mark.usefixtures("wheel")
def test_elsewhere_it_names_the_wheel() -> None:
    name = f"nearer-{nearer.__version__}-py3-none-any.whl"
    assert extras.checkout() is None
    assert extras.install_command("serve") == f"pip install '{name}[serve]'"
    assert extras.reinstall_command() == f"pip install --force-reinstall --no-deps {name}"


def test_what_is_missing_is_told_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError) as caught:
        extras.require("faiss", "search", "searching")
    assert str(caught.value) == f"searching needs the package 'faiss': {extras.install_command('search')}"


def test_nobody_is_sent_to_an_index_that_does_not_have_it() -> None:
    sources = [*PAGES, *(ROOT / "src").rglob("*.py")]
    sent = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sources
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"pip install[^`#]* '?nearer(\[|\s|'|$)", line)
    ]
    assert sent == []
