"""Room for workers, and errors of workers, without Ray."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.errors import InputError, ModelError, NearerError, SettingError
from nearer.ray_runtime import Node, RayError, _start, per_worker, plain

machines = st.lists(st.builds(Node, st.integers(0, 9).map(float), st.integers(0, 3).map(float)), min_size=1, max_size=4)


def fits(there: list[Node], workers: int, cpus: int, gpus: int) -> bool:
    """By putting worker after worker wherever there is room."""
    free = [[node.cpus, node.gpus] for node in there]
    for _ in range(workers):
        place = next((node for node in free if node[0] >= cpus and node[1] >= gpus), None)
        if place is None:
            return False
        place[0] -= cpus
        place[1] -= gpus
    return True


@given(there=machines, workers=st.integers(1, 8), gpus=st.sampled_from([0, 1]))
def test_each_worker_has_the_most_processors_that_all_can_have(there: list[Node], workers: int, gpus: int) -> None:
    best = max((cpus for cpus in range(1, 40) if fits(there, workers, cpus, gpus)), default=None)
    if best is None:
        with pytest.raises(SettingError, match=r"\Aworkers: "):
            per_worker(there, workers, float(gpus))
    else:
        assert per_worker(there, workers, float(gpus)) == {"num_cpus": best, "num_gpus": gpus}


@pytest.mark.parametrize(
    ("there", "workers", "gpus", "message"),
    [
        ([Node(8, 1)], 2, 1.0, "2 need a GPU each, Ray has 1 here"),
        ([Node(2, 0), Node(1, 0)], 4, 0.0, "4 asked for, Ray has 3 processors here"),
        ([Node(8, 0), Node(0, 2)], 1, 1.0, "1 find no room"),
    ],
)
def test_why_there_is_no_room(there: list[Node], workers: int, gpus: float, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        per_worker(there, workers, gpus)


class Wrapped(Exception):
    def __init__(self, cause: Exception) -> None:
        super().__init__("a task failed\nin many lines")
        self.cause = cause


TRACEBACK = """ray::MapWorker(MapBatches(_Worker)).submit() (pid=1)
  File "workers.py", line 3, in call
    raise {0}
{0}

The above exception was the direct cause of the following exception:

ray.exceptions.UserCodeException: UDF failed to process a data block.
Failed after 1/1 attempts."""


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (Wrapped(Wrapped(ModelError("tiny: no such folder."))), ModelError("tiny: no such folder.")),
        (Exception(TRACEBACK.format("nearer.errors.InputError: a.txt: is: gone.")), InputError("a.txt: is: gone.")),
        (
            Exception(TRACEBACK.format("torch.OutOfMemoryError: CUDA out of memory")),
            RayError("a Ray worker failed (torch.OutOfMemoryError: CUDA out of memory)."),
        ),
        (
            Exception(TRACEBACK.format("other.errors.InputError: not ours")),
            RayError("a Ray worker failed (other.errors.InputError: not ours)."),
        ),
        (Exception("The actor died.\n  It was killed.\n"), RayError("a Ray worker failed (It was killed.).")),
        (Exception(""), RayError("a Ray worker failed (Exception).")),
        (
            Exception("It died.\n  class_name: _Worker\nThe actor is dead because its worker process has died. EOF"),
            RayError(
                "a Ray worker died: its process or its machine is gone, most often for want of memory; fewer workers "
                "(--workers) need less."
            ),
        ),
    ],
)
def test_an_error_of_a_worker_is_one_line(error: Exception, wanted: NearerError) -> None:
    found = plain(error)
    assert (type(found), str(found)) == (type(wanted), str(wanted))


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """What starting Ray sets for the whole process."""
    monkeypatch.setenv("RAY_BACKEND_LOG_LEVEL", "fatal")


def test_ray_s_client_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    with pytest.raises(SettingError, match=r"RAY_ADDRESS: ray://head:10001 is for Ray's client.*RAY_ADDRESS=auto"):
        _start(None, 0)


class Unreachable:
    def init(self, **_: object) -> None:
        raise ConnectionError("Could not find any running Ray instance.\nPlease specify the one to connect to.")


def test_a_cluster_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    with pytest.raises(SettingError, match=r"no Ray cluster answers at auto \(Could not find any running Ray instance"):
        _start(Unreachable(), 0)
    assert list(itertools.chain(*capfd.readouterr())) == []
