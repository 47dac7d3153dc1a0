"""What a terminal would obey is shown by its number, wherever a command prints; JSON and redirected data are exact."""

from __future__ import annotations

import ast
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nearer as package
from nearer.search import SearchIndex
from nearer.terminal import console, visible
from patience import HANG

CLIPBOARD = "\x1b]52;c;cm0gLXJmIH4=\x07"
TURNED = "\u202eevil\u2066"
TEXT = f"rain {CLIPBOARD} {TURNED} \x9b31m"
SHOWN = r"rain \u001b]52;c;cm0gLXJmIH4=\u0007 \u202eevil\u2066 \u009b31m"


PRINTING = ("print", "Console", "typer.echo", "typer.secho", "sys.stdout.write", "sys.stderr.write")


def raw(text: str) -> list[str]:
    """Characters that a terminal would obey."""
    return [character for character in text if visible(character) != character]


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    path = tmp_path / "hostile.jsonl"
    path.write_text(json.dumps(TEXT) + "\n" + json.dumps("the fox") + "\n", encoding="utf-8")
    return path


def on_a_terminal(*arguments: object) -> str:
    """What a command writes where standard output is a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "nearer.cli.main", *map(str, arguments)]
    with subprocess.Popen(
        command, stdout=theirs, stderr=subprocess.DEVNULL, env={**os.environ, "COLUMNS": "300"}
    ) as run:
        os.close(theirs)
        written = b""
        try:
            while chunk := os.read(ours, 4096):
                written += chunk
        except OSError:  # how a terminal ends
            pass
        run.wait(timeout=HANG)
    os.close(ours)
    return written.decode()


class TestText:
    def test_every_character(self) -> None:
        assert visible(TEXT) == SHOWN
        assert visible("a\tb\nc é 東京 🙂 العربية") == "a\tb\nc é 東京 🙂 العربية"
        assert json.loads(visible(json.dumps(TEXT, ensure_ascii=False))) == TEXT

    def test_tables_and_bars(self) -> None:
        from rich.table import Table
        from rich.text import Text

        out = io.StringIO()
        table = Table(title=TEXT)
        table.add_column(TEXT)
        table.add_row(TEXT)
        table.add_row(Text(TEXT, style="bold"))
        console(file=out, width=300, force_terminal=True, markup=False).print(table)
        plain = out.getvalue()
        assert plain.count(r"\u001b]52;c;") == 4
        assert plain.count(r"\u202eevil") == 4
        assert "\x1b]" not in plain
        assert not {"\u202e", "\u2066", "\x9b", "\x07"} & set(plain)

    def test_only_one_module_prints(self) -> None:
        """So that no command can forget it."""
        root = Path(package.__file__).parent
        printing = set()
        for path in root.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call):
                    called = ast.unparse(node.func)
                    if called in (
                        "print",
                        "Console",
                        "typer.echo",
                        "typer.secho",
                        "sys.stdout.write",
                        "sys.stderr.write",
                    ):
                        printing.add(path.relative_to(root).as_posix())
        assert printing <= {"terminal.py"}


class TestCommands:
    def test_rank_on_a_terminal_and_redirected(self, pooled: Path, hostile: Path, nearer: Callable[..., Any]) -> None:
        shown = on_a_terminal("rank", pooled, "rain", hostile)
        assert SHOWN in shown
        assert raw(shown.replace("\r\n", "\n")) == []
        assert TEXT in nearer("rank", pooled, "rain", hostile).out  # a program reads the sentences as they are

    def test_read(self, hostile: Path, nearer: Callable[..., Any]) -> None:
        assert TEXT in nearer("data", "read", hostile).out

    def test_search(
        self, encoder: Any, pooled: Path, hostile: Path, tmp_path: Path, nearer: Callable[..., Any]
    ) -> None:
        SearchIndex.build(pooled, hostile, tmp_path / "index")
        found = nearer("search", "query", tmp_path / "index", f"rain {CLIPBOARD}", "--device", "cpu")
        assert found.code == 0
        assert r"\u001b]52;c;" in found.out
        assert r"\u202eevil" in found.out
        assert raw(found.out + found.err) == []
        exact = nearer("search", "query", tmp_path / "index", TEXT, "--json", "--device", "cpu").out
        assert raw(exact) == []
        assert json.loads(exact)["query"] == TEXT
        assert TEXT in [hit["text"] for hit in json.loads(exact)["hits"]]

    def test_names_in_errors(self, nearer: Callable[..., Any], tmp_path: Path) -> None:
        line = nearer("data", "read", tmp_path / f"a{CLIPBOARD}{TURNED}.txt").err
        assert r"a\u001b]52;c;" in line
        assert raw(line) == []

    def test_content_in_errors(self, nearer: Callable[..., Any], tmp_path: Path) -> None:
        recipe = tmp_path / "a.yaml"
        recipe.write_text(f"method: {json.dumps(TEXT)}\n{json.dumps(TURNED)}: 1\n", encoding="utf-8")
        found = nearer("train", recipe, "--corpus", recipe)
        assert found.code == 1
        assert raw(found.err) == []

    def test_options(self, nearer: Callable[..., Any]) -> None:
        found = nearer("recipes", f"--{CLIPBOARD}")
        assert found.code == 2
        assert "\x1b]52" not in found.err
        assert nearer("settings", f"x{TURNED}").code == 1

    def test_numbers_without_end(self, pooled: Path, hostile: Path, nearer: Callable[..., Any]) -> None:
        assert nearer("rank", pooled, "rain", hostile, "--top", "9" * 5000).code == 2
        assert "Traceback" not in nearer("rank", pooled, "rain", hostile, "--max-length", "9" * 30).err
        assert "Traceback" not in nearer("data", "read", hostile, "--columns", "9" * 5000).err
