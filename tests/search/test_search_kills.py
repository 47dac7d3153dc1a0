"""A process killed at any moment of building or adding: the index is as it was, or as it should become."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from search_text import sentences, write_lines

from nearer.encoder import Encoder
from nearer.search import SearchIndex
from patience import HANG

# For each moment at which something is written, renamed or removed: a child that dies then, a look at what it left, and
# a child that does the same undisturbed. The parent computes nothing, so that its children can be forked from it.
DRIVER = """
import os, pathlib, shutil, signal, sys
from nearer.encoder import Encoder
from nearer.errors import InputError
from nearer.search import SearchIndex, building
from nearer.search import row_store as rows
from nearer.search import nearest_neighbours as structure
import faiss, nearer.teachers  # once, not in each child
model, action, text, root, kind, step = sys.argv[1:]
root = pathlib.Path(root)
building.WINDOW_ON_CPU = 16
encoder = Encoder.load(model, pooling="mean", device="cpu")

def act(folder, moment):
    left = [moment]
    def dying(function):
        def called(*arguments, **named):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **named)
        return called
    for owner, names in ((os, ["fsync"]), (pathlib.Path, ["replace", "rename", "unlink"]), (shutil, ["rmtree"]),
                         (rows.RowWriter, ["append"]), (structure.Structure, ["write", "add"])):
        for name in names:
            setattr(owner, name, dying(getattr(owner, name)))
    if action == "add":
        SearchIndex.open(folder, model=encoder).add(text)
    else:
        SearchIndex.build(encoder, text, folder, kind=kind, overwrite=action == "replace")

def forked(folder, moment):
    child = os.fork()
    if not child:
        try:
            act(folder, moment)
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    return os.waitpid(child, 0)[1]

def state(folder):
    try:
        return len(SearchIndex.open(folder))
    except InputError as error:
        return "unfinished" if "not finished" in str(error) else "none" if "no such index" in str(error) else str(error)

moment, whole = 0, 70 if action == "add" else 30
while True:
    moment += int(step)
    folder = root / f"{moment}"
    if action != "build":
        shutil.copytree(root / "base", folder)
    status = forked(folder, moment)
    if status == 0:
        break
    assert os.WIFSIGNALED(status), status
    seen = state(folder)
    # who does not know whether it was finished gives it once more: then it is told, and nothing is there twice
    again = forked(folder, 10**9)
    assert (again == 0) == (seen != whole or action == "replace"), again
    print(moment, seen, state(folder))
"""


@pytest.mark.parametrize(
    ("action", "kind", "step", "allowed"),
    [
        ("build", "exact", 3, {"unfinished", "30"}),
        pytest.param("add", "ivf", 1, {"40", "70"}, marks=pytest.mark.slow),
        pytest.param("build", "hnsw", 1, {"unfinished", "30"}, marks=pytest.mark.slow),
        pytest.param("replace", "exact", 1, {"40", "30", "unfinished"}, marks=pytest.mark.slow),
    ],
)
def test_killed_at_every_moment(
    action: str,
    kind: str,
    step: int,
    allowed: set[str],
    encoder: Encoder,
    tmp_path: Path,
    tiny_model: Callable[[str], Path],
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    text = write_lines(tmp_path / "text.txt", sentences(30, 4))
    if action != "build":
        SearchIndex.build(encoder, write_lines(tmp_path / "base.txt", sentences(40, 3)), root / "base", kind=kind)
    command = [sys.executable, "-c", DRIVER, str(tiny_model("bert")), action, str(text), str(root), kind, str(step)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment)
    assert done.returncode == 0, done.stderr
    found = [line.split() for line in done.stdout.splitlines()]
    assert len(found) * step > 15
    states = [seen for _, seen, _ in found]
    assert set(states) <= allowed
    assert states[0] == ("unfinished" if action == "build" else "40")
    assert step > 1 or states[-1] == ("70" if action == "add" else "30")  # also after the moment that counts
    assert action != "replace" or "unfinished" not in states  # where two folders change places at once
    assert {after for _, _, after in found} == {"70" if action == "add" else "30"}
    for moment, *_ in found:
        index = SearchIndex.open(root / moment, model=encoder)
        np.testing.assert_allclose(
            index.vectors, encoder.encode(list(index.texts), normalize=True), atol=1e-5, err_msg=moment
        )
