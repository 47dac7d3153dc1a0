"""The benchmark of serving, shortly and on a tiny model."""

from __future__ import annotations

import pytest

from benchmarks.models import random_model
from benchmarks.serve import BATCHED, UNBATCHED, ServeBench, bench_serve
from nearer.encoder import Encoder


@pytest.mark.slow  # two services are started
def test_both_ways(tmp_path) -> None:
    Encoder.load(random_model("tiny", tmp_path / "raw"), pooling="mean", device="cpu").save(tmp_path / "model")
    report = bench_serve(ServeBench(str(tmp_path / "model"), clients=8, seconds=0.5))
    assert [row.what for row in report.rows] == [BATCHED, UNBATCHED]
    assert all(row.seconds and ", 0 errors;" in row.note for row in report.rows)
    assert set(report.rows[0].times_faster) == {UNBATCHED}
