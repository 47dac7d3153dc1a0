"""Decoding many requests at once gives what decoding each by hand gives."""

from __future__ import annotations

import json
import shutil
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from decoding_by_hand import ByHand, answers, make_tiny, mixed_requests, prompts, told

from nearer.construct.engines import key_values, load_engine
from nearer.construct.engines import prompts as engine_prompts
from nearer.construct.engines.prompts import ChatIds
from nearer.construct.requests import Generated, Request
from nearer.errors import ModelError, SettingError

LIMIT = 20


@pytest.mark.parametrize("guidance", [0.0, 1.5])
@pytest.mark.parametrize("batch", [1, 3, 16])
def test_tokens_are_those_of_two_passes_without_caches(
    tiny_llm: Path, by_hand: ByHand, batch: int, guidance: float
) -> None:
    engine = load_engine(tiny_llm, batch=batch, max_new_tokens=LIMIT, device="cpu")
    requests = mixed_requests(12, guidance)
    found = answers(engine, requests)
    assert len(found) == len(requests)
    kinds = set()
    for request in requests:
        given = found[request.number]
        assert told(given) == by_hand(request, LIMIT)
        kinds.add(given.ended)
    assert kinds == {"model", "limit"}


def test_lists_that_grow_while_others_run(tiny_llm: Path, by_hand: ByHand) -> None:
    """Each next request is put in front when its predecessor has ended, as a builder does."""
    engine = load_engine(tiny_llm, batch=4, max_new_tokens=LIMIT, device="cpu")
    starts = prompts(9, seed=3)
    queue = deque(Request(n, 1, text) for n, text in enumerate(starts))
    before = dict(enumerate(starts))
    given: list[Generated] = []
    for one in engine.answer(queue):
        given.append(one)
        number, step = one.request.number, one.request.step
        text = f"{one.text} {before[number]}"[:120]
        if step < 4:
            queue.appendleft(Request(number, step + 1, text, one.request.prompt, 1.5))
    assert len(given) == 4 * 9
    for one in given:
        assert told(one) == by_hand(one.request, LIMIT)


def test_without_guidance_it_is_greedy_generation(tiny_llm: Path, by_hand: ByHand) -> None:
    engine = load_engine(tiny_llm, batch=5, max_new_tokens=LIMIT, device="cpu")
    model, tokenizer = by_hand.model, by_hand.tokenizer
    requests = [Request(n, 0, text, one_line=False) for n, text in enumerate(prompts(8, seed=1))]
    for number, given in answers(engine, requests).items():
        ids = torch.tensor([by_hand.ids(requests[number].prompt)])
        new = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=LIMIT, do_sample=False)[0]
        new = new[ids.shape[1] :]
        assert given.tokens == len(new)
        assert given.text == tokenizer.decode(new, skip_special_tokens=True).strip()


def test_sampled_answers_do_not_depend_on_the_batch(tiny_llm: Path) -> None:
    settings = {"max_new_tokens": LIMIT, "temperature": 0.8, "top_p": 0.9, "seed": 3, "device": "cpu"}
    requests = mixed_requests(20, 1.5)
    texts = []
    for batch, order in ((1, 1), (7, 1), (16, -1)):
        found = answers(load_engine(tiny_llm, batch=batch, **settings), requests[::order])
        texts.append([found[n].text for n in range(20)])
    assert texts[0] == texts[1] == texts[2]
    other = answers(load_engine(tiny_llm, batch=7, **{**settings, "seed": 4}), requests)
    assert [other[n].text for n in range(20)] != texts[0]
    greedy = answers(load_engine(tiny_llm, batch=7, max_new_tokens=LIMIT, device="cpu"), requests)
    assert [greedy[n].text for n in range(20)] != texts[0]


def test_a_request_has_its_own_limit_and_may_have_lines(tiny_llm: Path, by_hand: ByHand) -> None:
    engine = load_engine(tiny_llm, batch=3, max_new_tokens=LIMIT, device="cpu")
    longest = answers(engine, mixed_requests(12, 1.5, one_line=False, max_new_tokens=140))
    assert max(given.tokens for given in longest.values()) > LIMIT  # the buffer has moved and grown on the way
    assert any("\n" in given.text for given in longest.values())
    for given in longest.values():
        if "\n" not in given.text:
            assert told(given) == by_hand(given.request, 140)


def test_a_prompt_longer_than_the_window_has_no_room(tiny_llm: Path, by_hand: ByHand) -> None:
    engine = load_engine(tiny_llm, batch=2, max_new_tokens=LIMIT, device="cpu")
    short, long = "the dog runs", " ".join(["dog"] * 200)
    nearly = " ".join(["dog"] * 140)
    requests = [Request(0, 1, long), Request(1, 1, short, long, 1.5), Request(2, 1, short), Request(3, 1, nearly)]
    found = answers(engine, requests)
    assert [found[n].ended for n in (0, 1)] == ["no room", "no room"]
    assert (found[0].text, found[0].tokens) == ("", 0)
    assert told(found[2]) == by_hand(requests[2], LIMIT)
    assert told(found[3]) == by_hand(requests[3], LIMIT)


def test_nothing_asked_nothing_answered(tiny_llm: Path) -> None:
    assert list(load_engine(tiny_llm, batch=2, device="cpu").answer(deque())) == []


def test_a_model_that_ends_at_once(tmp_path: Path) -> None:
    engine = load_engine(make_tiny(tmp_path / "mute"), batch=3, device="cpu")
    with torch.no_grad():
        head = engine.language.model.lm_head
        head.weight.zero_()
        head.register_forward_hook(lambda module, args, logits: logits.index_fill(-1, torch.tensor([3]), 9.0))
    found = answers(engine, mixed_requests(7, 1.5))
    assert {(given.text, given.tokens, given.ended) for given in found.values()} == {("", 1, "model")}


def test_numbers_that_are_none_are_an_error(tmp_path: Path) -> None:
    engine = load_engine(make_tiny(tmp_path / "broken"), batch=3, device="cpu")
    with torch.no_grad():
        engine.language.model.lm_head.weight[7] = float("nan")
    with pytest.raises(ModelError, match="broken: gave NaN"):
        answers(engine, mixed_requests(4, 1.5))


def test_a_model_without_template_gets_the_prompt_alone(tmp_path: Path) -> None:
    engine = load_engine(make_tiny(tmp_path / "plain", template=None), batch=3, max_new_tokens=9, device="cpu")
    request = Request(0, 1, "the dog", "a cat sees the rain", 1.5)  # the last tokens of both prompts differ
    assert [len(ids) for ids in engine.ids([request])[0]] == [2, 5]
    given = answers(engine, [request])[0]
    assert told(given) == ByHand(tmp_path / "plain", 160)(request, 9)


def test_prompts_are_tokenised_once_while_they_are_remembered(
    tiny_llm: Path, by_hand: ByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_prompts, "REMEMBERED", 3)
    ids, asked = ChatIds(by_hand.tokenizer, "tiny"), []
    tokenise = ids._tokenise

    def watched(missing: Sequence[str]) -> list[tuple[int, ...]]:
        asked.append(list(missing))
        return tokenise(missing)

    monkeypatch.setattr(ids, "_tokenise", watched)
    a, b, c, d = prompts(4, seed=5)
    for given in ([a, b, a], [b, c], [a], [d, a], [b]):
        assert ids(given) == [tuple(by_hand.ids(prompt)) for prompt in given]
    assert asked == [[a, b], [c], [d], [b]]  # d came, and b had been asked for longest ago


def test_other_attention_is_used_as_it_is(tmp_path: Path) -> None:
    """Gemma 2 caps its scores, which the grouped attention does not compute."""
    from transformers import Gemma2Config, Gemma2ForCausalLM

    folder = make_tiny(tmp_path / "gemma")
    size = json.loads((folder / "config.json").read_text())["vocab_size"]
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = Gemma2Config(
        vocab_size=size, intermediate_size=48, head_dim=8, sliding_window=64, initializer_range=0.4,
        attn_logit_softcapping=1.0, eos_token_id=2, max_position_embeddings=160, **shape,
    )  # fmt: skip
    Gemma2ForCausalLM(config).save_pretrained(folder)
    engine = load_engine(folder, batch=3, max_new_tokens=9, device="cpu")
    assert engine.language.model.config._attn_implementation != key_values.ATTENTION
    assert engine.window == 64
    by_hand = ByHand(folder, 64)
    for given in answers(engine, mixed_requests(6, 1.5)).values():
        assert told(given) == by_hand(given.request, 9)


def test_a_model_that_keeps_no_keys_is_refused(tmp_path: Path) -> None:
    from transformers import MambaConfig, MambaForCausalLM

    folder = make_tiny(tmp_path / "mamba")
    MambaForCausalLM(MambaConfig(vocab_size=90, hidden_size=16, num_hidden_layers=1, state_size=4)).save_pretrained(
        folder
    )
    with pytest.raises(ModelError, match="mamba: its contexts cannot be decoded side by side"):
        load_engine(folder, device="cpu")


def test_identity_follows_model_and_choosing(tiny_llm: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(tiny_llm, copy)
    one = load_engine(tiny_llm, batch=2, device="cpu").identity()
    assert load_engine(copy, batch=5, device="cpu").identity() == one
    assert one["choosing"] == "greedy"
    assert load_engine(copy, device="cpu", precision="bf16").identity()["precision"] == "bf16"
    sampled = load_engine(copy, device="cpu", temperature=0.5, seed=2).identity()
    assert sampled["choosing"] == "sampled, temperature 0.5, top_p 1, seed 2"
    template = copy / "chat_template.jinja"
    template.write_text(template.read_text().replace("again", "once more"))
    assert load_engine(copy, device="cpu").identity()["model"] != one["model"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch": 0}, "batch"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"temperature": -1.0}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"precision": "int4", "device": "cpu"}, "precision"),
        ({"kind": "other"}, "engine"),
    ],
)
def test_settings_that_cannot_be(tiny_llm: Path, settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=f"^{message}"):
        load_engine(tiny_llm, **settings)


def test_models_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such folder or file"):
        load_engine(tmp_path / "nowhere")
    (tmp_path / "text.gguf").write_text("not one")
    with pytest.raises(ModelError, match="is not a GGUF file"):
        load_engine(tmp_path / "text.gguf")
    with pytest.raises(ModelError, match="not a GGUF file"):
        load_engine(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"neither a config\.json nor a GGUF file"):
        load_engine(tmp_path / "empty")
    (tmp_path / "empty" / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ModelError, match="no causal language model that can be loaded"):
        load_engine(tmp_path / "empty")
