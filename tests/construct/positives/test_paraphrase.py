"""Paraphrasers: a causal model that follows a written table, and a random BART."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers

from nearer.construct.positives import WordFrequencies, generator_by_name
from nearer.construct.positives.language_model import LanguageModel
from nearer.construct.positives.rewriting import ROUNDS, Paraphraser, cleaned
from nearer.errors import InputError, SettingError

CPU = torch.device("cpu")
CHAT = "{% for m in messages %}<user> {{ m['content'] }}{% endfor %} <answer>"
# what follows depends on the last word of a sentence
REPLIES = {
    "rain": '"',
    '"': "wet",
    "wet": "weather",
    "weather": "\n",
    "\n": "more",
    "silence": "</s>",
    "round": "round",
}


def paraphraser(folder: Path, words: WordFrequencies, **settings: object) -> Paraphraser:
    return Paraphraser(str(folder), words, device=CPU, plain_first=True, **settings)  # type: ignore[arg-type]


def test_the_first_line_counts_without_its_quotes(written_model: Callable[..., Path]) -> None:
    model = written_model({**REPLIES, "weather": '"\n'})
    generator = paraphraser(model, WordFrequencies(("rain",), ()), template="{sentence}")
    assert generator.candidates(["rain"], 1, [1]) == [["wet weather"]]
    assert not generator.rejected


@pytest.mark.parametrize(("last", "reason"), [("silence", "empty"), ("round", "no end"), ("echo", "loops")])
def test_outputs_of_no_use_are_counted(
    last: str, reason: str, written_model: Callable[..., Path], frequent: WordFrequencies
) -> None:
    looping = {"echo": "so", "so": "no no", "no no": "no  no", "no  no": "</s>"}
    generator = paraphraser(written_model({**REPLIES, **looping}), frequent, template=f"{{sentence}} {last}")
    assert generator.candidates(["some words"], 1, [1]) == [[]]
    assert generator.rejected == {reason: ROUNDS}


def test_a_chat_template_is_put_around_where_there_is_one(
    written_model: Callable[..., Path], frequent: WordFrequencies
) -> None:
    table = {"<answer>": "chatted", "rain": "plain", "<user>": "wrong"}
    for chat_template, expected in ((CHAT, "chatted"), (None, "plain")):
        generator = paraphraser(written_model(table, chat_template), frequent, template="{sentence} rain")
        assert generator.candidates(["some"], 1, [1]) == [[expected]]
        assert generator.identity()["chat template"] == ("applied" if chat_template else "")


def test_candidates_do_not_depend_on_the_others_of_a_call(
    tiny_bart: Path, frequent: WordFrequencies, text: list[str]
) -> None:
    generator = Paraphraser(str(tiny_bart), frequent, device=CPU)
    seeds = range(5, 5 + len(text))
    together = generator.candidates(text, 2, seeds)
    assert sum(map(len, together)) > len(text)
    assert together == [generator.candidates([s], 2, [seed])[0] for s, seed in zip(text, seeds, strict=True)]
    for sentence, found in zip(text, together, strict=True):
        assert len(found) == len(set(found)) <= 2
        assert sentence not in found


def test_a_seq2seq_model_with_a_mask_gets_it(tiny_bart: Path, frequent: WordFrequencies) -> None:
    generator = Paraphraser(str(tiny_bart), frequent, device=CPU)
    assert generator.noise.mask == "<mask>"
    assert generator.template == "{sentence}"


@torch.no_grad()
def test_left_padding_changes_nothing(tmp_path: Path, tiny_bart: Path, text: list[str]) -> None:
    torch.manual_seed(11)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_bart)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        eos_token_id=2,
        initializer_range=0.4,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = LanguageModel(str(tmp_path), CPU)
    prompts = model.tokens(["A", *text])
    limits = [5 + place for place in range(len(prompts))]
    for prompt, limit, generation in zip(prompts, limits, model.generate(prompts, limits), strict=True):
        ids = list(prompt)
        while len(ids) < len(prompt) + limit and ids[-1] != 2:
            ids.append(int(model.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
        told = tokenizer.decode(ids[len(prompt) :], skip_special_tokens=True)
        assert generation.fault == (None if ids[-1] == 2 else "no end")
        assert generation.text == told
    assert len({generation.text for generation in model.generate(prompts, limits)}) > 3


def test_a_text_must_end_within_its_own_limit_not_its_neighbours(written_model: Callable[..., Path]) -> None:
    model = LanguageModel(str(written_model({"a": "b", "b": "c", "c": "d"})), CPU)
    (prompt,) = model.tokens(["a"])
    short, exact, wide = model.generate([prompt] * 3, [3, 4, 10])
    assert (short.text, short.fault) == ("b c d", "no end")
    assert (exact.text, exact.fault) == (wide.text, wide.fault) == ("b c d", None)


def test_a_prompt_longer_than_the_window_is_counted(
    written_model: Callable[..., Path], frequent: WordFrequencies
) -> None:
    generator = paraphraser(written_model({"rain": "wet"}), frequent, template="{sentence} rain")
    long, usual = generator.candidates(["word " * 100, "some"], 1, [1, 2])
    assert (long, usual) == ([], ["wet"])
    assert generator.rejected == {"input too long": ROUNDS}


def test_the_template_is_read_from_the_file_and_part_of_the_identity(
    written_model: Callable[..., Path], frequent: WordFrequencies, tmp_path: Path
) -> None:
    model = written_model({"rain": "wet", "snow": "white"})
    found = []
    for word in ("rain", "snow"):
        file = tmp_path / f"{word}.txt"
        file.write_text(f"{{sentence}} {{braces}} {word}\n", encoding="utf-8")
        generator = generator_by_name(f"paraphrase:{model}?template={file}", words=lambda: frequent, device=CPU)
        found.append((generator.candidates(["some words"], 1, [1]), generator.identity()))
    assert [candidates for candidates, _ in found] == [[["wet"]], [["white"]]]
    assert found[0][1] != found[1][1]


def test_a_template_without_a_place_is_refused(frequent: WordFrequencies, tmp_path: Path) -> None:
    file = tmp_path / "template.txt"
    file.write_text("Paraphrase it.", encoding="utf-8")
    with pytest.raises(InputError, match=r"template\.txt: the template has no \{sentence\}"):
        generator_by_name(f"paraphrase:model?template={file}", words=lambda: frequent)
    with pytest.raises(InputError, match=r"none\.txt: the template cannot be read \(No such file"):
        generator_by_name(f"paraphrase:model?template={tmp_path / 'none.txt'}", words=lambda: frequent)
    with pytest.raises(SettingError, match=r"template: has no \{sentence\}"):
        Paraphraser("model", frequent, template="Paraphrase it.")


@pytest.mark.parametrize(
    ("output", "sentence", "expected"),
    [
        (' "It is wet."\nNote: …', "rain", "It is wet."),
        ("“«It  is wet.»”", "rain", "It is wet."),
        ('"Go!" he said', "rain", '"Go!" he said'),
        ('"Go!"', '"Leave!"', '"Go!"'),
        ('"', "rain", '"'),
        ("", "rain", ""),
    ],
)
def test_cleaning(output: str, sentence: str, expected: str) -> None:
    assert cleaned(output, sentence) == expected
