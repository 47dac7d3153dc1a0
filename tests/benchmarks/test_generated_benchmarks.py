"""Scripts around generated data: other thresholds for scored triplets, perplexity by position, shell that parses."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from benchmarks.curate_triplets import curate
from benchmarks.fluency import perplexities
from nearer.construct.engines.language_model import load_language_model
from nearer.construct.triplet_rules import SMALL_GAP, WEAK_POSITIVE, Curation
from nearer.errors import InputError

ROOT = Path(__file__).parents[2]


def test_thresholds_are_chosen_afterwards(tmp_path: Path) -> None:
    scores = [(5, 1), (1, 4), (2, 1), (3, 3), (4, 2)]
    records = [
        {"anchor": f"a{n}", "positive": f"p{n}", "hard_negative": f"n{n}", "scores": pair}
        for n, pair in enumerate(scores)
    ]
    source, out = tmp_path / "data.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert curate(source, out, Curation(), None) == {"kept": 3, "swapped": 1, WEAK_POSITIVE: 1, SMALL_GAP: 1}
    kept = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(one["anchor"], one["positive"]) for one in kept] == [("a0", "p0"), ("a1", "n1"), ("a4", "p4")]
    assert curate(source, out, None, 4) == {"kept": 4}
    source.write_text(json.dumps({"anchor": "a"}) + "\n")
    with pytest.raises(InputError, match="line 1 has no scores"):
        curate(source, out, Curation(), None)


@pytest.fixture
def llm(tmp_path: Path) -> Path:
    words = ["the", "fox", "eats", "rain", "a", "man", "dog", "comes", "again", "lunch"]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(["<unk>", "</s>", *words])}, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>").save_pretrained(tmp_path)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(vocab_size=12, eos_token_id=1, **shape)).save_pretrained(tmp_path)
    return tmp_path


def test_perplexity_is_that_of_each_sentence_alone(llm: Path) -> None:
    language = load_language_model(llm, torch.device("cpu"), "float32")
    lists = [["the fox eats", "rain"], ["a man", "the dog comes again"], ["lunch"]]
    found = perplexities(language, lists, batch=2)
    start = language.tokenizer.bos_token_id
    start = min(language.ends) if start is None else start
    for position, value in enumerate(found):
        total, tokens = 0.0, 0
        for one in lists:
            if len(one) > position:
                ids = [start, *language.tokenizer(one[position], add_special_tokens=False)["input_ids"]]
                with torch.inference_mode():
                    likely = language.model(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)
                total -= sum(float(likely[at, token]) for at, token in enumerate(ids[1:]))
                tokens += len(ids) - 1
        assert value == pytest.approx(math.exp(total / tokens), rel=1e-4)


@pytest.mark.parametrize("script", sorted(path.name for path in (ROOT / "benchmarks").glob("*.sh")))
def test_shell_scripts_parse(script: str) -> None:
    subprocess.run(["bash", "-n", ROOT / "benchmarks" / script], check=True)
