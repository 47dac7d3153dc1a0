"""The benchmark of decoding, on a tiny model: what is compared has generated the same sentences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from benchmarks.decode import ALONE, PLAIN, TOGETHER, UNRECORDED, DecodeBench, bench_decode
from nearer.construct.engines.transformers_engine import TransformersEngine

WANTED = {"lists": 3, "steps": 2, "max_new_tokens": 6, "alone": 2}


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    tokenizer = Tokenizer(models.WordLevel({f"w{n}": n for n in range(40)} | {"<unk>": 40}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="w0").save_pretrained(tmp_path)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    LlamaForCausalLM(LlamaConfig(vocab_size=41, eos_token_id=0, **shape)).save_pretrained(tmp_path)
    return str(tmp_path)


def test_three_ways_side_by_side(tiny: str) -> None:
    report = bench_decode(DecodeBench(tiny, **WANTED))
    assert [row.what for row in report.rows] == [TOGETHER, ALONE, PLAIN]
    assert all(row.seconds for row in report.rows)
    assert set(report.rows[0].times_faster) == {ALONE, PLAIN}
    assert "4 of 4 sentences of 'two plain passes' are the same as together" in report.notes


def test_recorded_steps_beside_others(tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU nothing is recorded, but the steps are those that would be."""
    load = TransformersEngine.load

    def recording(*given: Any) -> TransformersEngine:
        engine = load(*given)
        engine.language = replace(engine.language, records=True)
        return engine

    monkeypatch.setattr(TransformersEngine, "load", recording)
    report = bench_decode(DecodeBench(tiny, **WANTED))
    assert [row.what for row in report.rows] == [TOGETHER, UNRECORDED, ALONE, PLAIN]
    assert f"6 of 6 sentences of {UNRECORDED!r} are the same as together" in report.notes
