"""A run killed again and again ends with the weights of one that never was."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from nearer.training import train

# Dies at the N-th of the moments at which a run reads a batch, writes a file, renames a folder or removes one.
RUN = """
import os, pathlib, shutil, signal, sys
import nearer, nearer.training, transformers.models.bert.modeling_bert
from nearer.training import feed, log
from nearer.runs import checkpoints

def run(folder, recipe, corpus, moments):
    left = [moments]
    def dying(function):
        def called(*arguments, **named):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **named)
        return called
    feed.Feed.batch = dying(feed.Feed.batch)
    log.RunLog.write = dying(log.RunLog.write)
    checkpoints.save_file = dying(checkpoints.save_file)
    pathlib.Path.rename = dying(pathlib.Path.rename)
    pathlib.Path.write_text = dying(pathlib.Path.write_text)
    shutil.rmtree = dying(shutil.rmtree)
    if os.path.exists(folder + "/config.yaml"):
        nearer.resume(folder)
    else:
        nearer.train(recipe, corpus, out=folder)
"""
ALONE = f"{RUN}\nrun(*sys.argv[1:4], int(sys.argv[4]))"
# Everything is imported and nothing computed when it splits: a child is then as good as a new interpreter, and there
# without its seconds of imports. Its threads come out first, which a child would lack; then a line in for each run, and
# its exit status out.
FORKING = f"""{RUN}
import traceback
print(len(os.listdir("/proc/self/task")), flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            run(*sys.argv[1:4], int(line))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
# A line is a folder, a port, the threads of each process and the step before which they die; how they ended comes back.
PAIRS = """
import os, signal, sys, traceback
import nearer, nearer.training, torch, transformers.models.bert.modeling_bert
from nearer.training.trainer import Trainer
recipe, corpus = sys.argv[1:]
advance = Trainer.advance

def run(folder, port, rank, threads, last):
    def dying(trainer):
        if trainer.step == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return advance(trainer)
    Trainer.advance = dying
    os.environ |= {"WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    torch.set_num_threads(threads)
    if os.path.exists(folder + "/config.yaml"):
        nearer.resume(folder)
    else:
        nearer.train(recipe, corpus, out=folder, settings={"max_steps": 8, "checkpoint_every": 3, "test_on": []})

print(len(os.listdir("/proc/self/task")), flush=True)
for line in sys.stdin:
    folder, port, first, second, last = line.split("\\t")
    children = []
    for rank, threads in enumerate((first, second)):
        children.append(os.fork())
        if children[-1] == 0:
            try:
                run(folder, port, rank, int(threads), int(last))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
    print(*[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children], flush=True)
"""
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="whether a fork is safe is read in /proc")
Run = Callable[[int], int]  # dies at this moment, returns how it ended
FEWER_KILLS = 2  # where each costs the imports


@contextmanager
def forked(*arguments: str) -> Iterator[tuple[Run, int]]:
    """How to run, and how many times a run may be killed; in interpreters of their own where a fork is not safe."""
    command = [sys.executable, "-c", FORKING, *arguments]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=ONE_THREAD) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        asked, answers = server.stdin, server.stdout

        def run(moment: int) -> int:
            asked.write(f"{moment}\n")
            asked.flush()
            return int(answers.readline())

        if int(answers.readline()) == 1:
            yield run, 3
        else:  # importing torch for some GPUs starts threads
            yield in_an_interpreter(*arguments), FEWER_KILLS
        asked.close()


@contextmanager
def started(*arguments: str) -> Iterator[tuple[Run, int]]:
    yield in_an_interpreter(*arguments), 30


def in_an_interpreter(*arguments: str) -> Run:
    return lambda moment: (
        subprocess.run([sys.executable, "-c", ALONE, *arguments, str(moment)], env=ONE_THREAD).returncode
    )


@pytest.mark.parametrize(
    "processes", [pytest.param(forked, marks=needs_proc), pytest.param(started, marks=pytest.mark.slow)]
)
def test_kills(
    processes: Callable[..., Any],
    recipe: Path,
    corpus: Path,
    tmp_path: Path,
    weights: Callable[[Path], dict[str, Any]],
) -> None:
    draw = random.Random(11)
    died = 0
    if processes is forked:
        recipe.write_text(recipe.read_text().replace("epochs: 2", "epochs: 1"))
    folders = [tmp_path / name for name in ("killed", "alone", "here")]
    killed, alone, here = folders
    with processes(str(killed), str(recipe), str(corpus)) as (run, kills):
        for _ in range(3 * kills):
            # most runs die early on, so that all deaths are spread over one training
            status = run(draw.randint(2, 22) if died < kills else 10**9)
            if status == 0:
                break
            assert status == -signal.SIGKILL
            died += 1
    assert died == kills
    assert in_an_interpreter(str(alone), str(recipe), str(corpus))(10**9) == 0
    with a_past(recipe, corpus, tmp_path / "other"):
        train(recipe, corpus, out=here)
    of_killed, *others = (weights(folder) for folder in folders)
    for straight in others:
        assert of_killed.keys() == straight.keys()
        assert [name for name in straight if not torch.equal(of_killed[name], straight[name])] == []
    assert len({(folder / "metrics.jsonl").read_text() for folder in folders}) == 1


@needs_proc
def test_two_processes_killed(
    recipe: Path, corpus: Path, tmp_path: Path, weights: Callable[[Path], dict[str, Any]]
) -> None:
    """They go on with the threads of the start, whatever each has by itself."""
    killed, straight = tmp_path / "killed", tmp_path / "straight"
    with subprocess.Popen(
        [sys.executable, "-c", PAIRS, str(recipe), str(corpus)], stdin=-1, stdout=-1, text=True, env=ONE_THREAD
    ) as pairs:
        assert pairs.stdin is not None
        assert pairs.stdout is not None
        if int(pairs.stdout.readline()) != 1:
            pytest.skip("importing torch starts threads here, which forked processes would lack")
        for folder, threads, last in ((killed, (1, 1), 5), (killed, (2, 1), -1), (straight, (1, 2), -1)):
            print(folder, free_port(), *threads, last, sep="\t", file=pairs.stdin, flush=True)
            ended = pairs.stdout.readline().split()
            if last == 5:
                assert "0" not in ended
                assert [found.name for found in (killed / "checkpoints").glob("step-*")] == ["step-00000003"]
            else:
                assert ended == ["0", "0"]
        pairs.stdin.close()
    of_killed, of_straight = weights(killed), weights(straight)
    assert of_killed.keys() == of_straight.keys()
    assert [name for name in of_straight if not torch.equal(of_killed[name], of_straight[name])] == []


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def a_past(recipe: Path, corpus: Path, folder: Path) -> Iterator[None]:
    """A process that has computed otherwise, and whose kernels torch has exchanged; one thread in the end."""
    onednn: Any = torch.backends.mkldnn
    before = torch.get_num_threads(), onednn.enabled
    try:
        torch.set_num_threads(2)
        for size in range(1, 200, 20):
            torch.ones(7 * size, 64) @ torch.ones(64, size)
        train(recipe, corpus, out=folder, settings={"seed": 4, "max_steps": 3, "pooling": "mean", "test_on": []})
        torch.set_num_threads(1)
        onednn.enabled = False  # as torch does when one of its products fails
        yield
    finally:
        torch.set_num_threads(before[0])
        onednn.enabled = before[1]
