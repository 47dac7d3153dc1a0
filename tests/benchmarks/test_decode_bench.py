"""The benchmark of decoding, on a tiny model: what is compared has generated the same sentences."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from benchmarks.decode import ALONE, PLAIN, TOGETHER, DecodeBench, bench_decode


def test_three_ways_side_by_side(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({f"w{n}": n for n in range(40)} | {"<unk>": 40}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="w0").save_pretrained(tmp_path)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    LlamaForCausalLM(LlamaConfig(vocab_size=41, eos_token_id=0, **shape)).save_pretrained(tmp_path)
    report = bench_decode(DecodeBench(str(tmp_path), lists=3, steps=2, max_new_tokens=6, alone=2))
    assert [row.what for row in report.rows] == [TOGETHER, ALONE, PLAIN]
    assert all(row.seconds for row in report.rows)
    assert set(report.rows[0].times_faster) == {ALONE, PLAIN}
    assert "4 of 4 sentences of 'two plain passes' are the same as together" in report.notes
