"""The load test of the service, shortly and on a tiny model: what is counted, and that memory has its bound."""

from __future__ import annotations

from benchmarks.hostile import KINDS
from benchmarks.load import LoadBench, load
from benchmarks.models import random_model
from benchmarks.text import corpus_text
from nearer.encoder import Encoder

# Outcomes that each kind may have: a status, or that it left before it had one. Who sends on and on after it was
# refused is cut off, and may lose the answer.
WANTED = {
    "endless_body": {"408"},
    "endless_body_without_key": {"401"},
    "endless_body_of_health": {"405"},
    "dripping_head": {"408"},
    "giant_headers": {"431", "cut off"},
    "many_headers": {"431", "cut off"},
    "huge_without_key": {"401"},
    "huge_with_key": {"200", "503", "left"},
    "malformed_with_key": {"422"},
    "long_queries": {"200", "503", "left"},
    "gone_at_once": {"left"},
    "unread_answer": {"left"},
}


def test_hostile_clients_harm_nobody(tmp_path) -> None:
    encoder = Encoder.load(random_model("tiny", tmp_path / "raw"), pooling="mean", device="cpu")
    encoder.save(tmp_path / "model")
    wanted = LoadBench(
        str(tmp_path / "model"),
        rate=6.0,
        hostile=0.6,
        seconds=3.0,
        alone_seconds=1.0,
        persistence=15.0,
        arguments=("--receive-timeout", "1"),
    )
    outcome = load(wanted, corpus_text(None, 4096, encoder.tokenizer))
    for seen in (outcome.alone, outcome.beside):
        assert seen.latencies
        assert (seen.refused, seen.unanswered) == ({}, {})
    met = {name: name.partition(": ") for name in outcome.beside.hostile}
    assert {kind for kind, _, _ in met.values()} == {kind.__name__ for kind in KINDS}
    assert [name for name, (kind, _, what) in met.items() if what not in WANTED[kind]] == []
    assert outcome.beside.peak <= outcome.alone.peak + outcome.limit
    assert outcome.said.startswith("ended: ")
    assert "cut off" not in outcome.said
