"""The README: its program runs as it stands, and what it points at is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from patience import HANG

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_program_runs(tmp_path: Path) -> None:
    program = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert program is not None
    things = ("train", "boat", "horse", "kettle", "garden", "letter", "winter", "market")
    (tmp_path / "mine.txt").write_text("".join(f"The {a} is near the {b}.\n" for a in things for b in things))
    ended = subprocess.run(
        [sys.executable, "-c", program[1]], cwd=tmp_path, capture_output=True, text=True, timeout=HANG, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[0].endswith("A man is eating.")
    assert len(list(tmp_path.glob("runs/*/model/model.safetensors"))) == 1


def test_what_it_points_at_is_there() -> None:
    named = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).exists()] == []
