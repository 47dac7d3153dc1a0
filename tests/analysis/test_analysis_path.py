"""Points on the way of a model: from models, and from what a run wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nearer.analysis import encode_tasks, run_path, trace_path
from nearer.analysis.geometry import alignment, uniformity
from nearer.errors import InputError
from nearer.evaluation import PairTask, evaluate


def test_a_point_for_each_model_in_order(table_model: type, make_task: Callable[..., PairTask]) -> None:
    task, models = make_task(), [table_model(0), table_model(1)]
    points = trace_path([("before", models[0]), ("after", models[1])], task)
    assert [point.label for point in points] == ["before", "after"]
    for model, point in zip(models, points, strict=True):
        [seen] = encode_tasks(model, [task])
        above = [place for place, pair in enumerate(task.pairs) if pair.score > 4]
        assert point.alignment == pytest.approx(
            alignment(seen.vectors[seen.first[above]], seen.vectors[seen.second[above]])
        )
        assert point.uniformity == pytest.approx(uniformity(seen.vectors))
        assert point.score == pytest.approx(evaluate(model, task).average)


def test_models_may_be_loaded_one_after_another(table_model: type, make_task: Callable[..., PairTask]) -> None:
    loaded: list[int] = []

    def load() -> Iterator[tuple[str, object]]:
        for seed in (0, 1):
            loaded.append(seed)
            yield f"step {seed}", table_model(seed)

    assert len(trace_path(load(), make_task(), threshold=3)) == 2
    assert loaded == [0, 1]


def test_no_models_and_no_positives(table_model: type, make_task: Callable[..., PairTask]) -> None:
    with pytest.raises(InputError, match="no models given"):
        trace_path([], make_task())
    with pytest.raises(InputError, match="no pair is scored above 5"):
        trace_path([("one", table_model())], make_task(), threshold=5)


class TestRun:
    def write(self, folder: Path, *lines: object, end: str = "\n") -> Path:
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (folder / "metrics.jsonl").write_text("\n".join(texts) + end, encoding="utf-8")
        return folder

    def test_evaluations_are_points_and_losses_are_not(self, tmp_path: Path) -> None:
        lines = (
            {"step": 0, "dev": 40.0, "uniformity": -1.5},
            {"step": 10, "loss": 0.3},
            {"step": 10, "dev": 50.0, "uniformity": -2.5, "alignment": 0.2},
        )
        first, second = run_path(self.write(tmp_path, *lines))
        assert (first.label, first.step, first.score, first.uniformity, first.alignment) == (
            "step 0",
            0,
            40.0,
            -1.5,
            None,
        )
        assert (second.step, second.alignment) == (10, 0.2)

    def test_a_line_that_is_still_being_written_is_left_alone(self, tmp_path: Path) -> None:
        run = self.write(tmp_path, {"step": 0, "uniformity": -1.5}, '{"step": 10, "unifo', end="")
        assert len(run_path(run)) == 1

    @pytest.mark.parametrize("line", ["{", "[]", '{"uniformity": -1}', '{"step": 3, "uniformity": "low"}'])
    def test_a_damaged_line_is_named(self, tmp_path: Path, line: str) -> None:
        with pytest.raises(InputError, match=r"metrics.jsonl: line 2 is not what a run writes"):
            run_path(self.write(tmp_path, {"step": 0, "uniformity": -1.5}, line))

    def test_no_run_and_a_run_without_dev(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"is not the folder of a run \(no metrics.jsonl\)"):
            run_path(tmp_path)
        with pytest.raises(InputError, match=r"holds no uniformity; the run had no dev task \(select_on\)"):
            run_path(self.write(tmp_path, {"step": 10, "loss": 0.3}))
