"""A causal language model of transformers, loaded and found fit for decoding many contexts together."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nearer.construct.engines import key_values
from nearer.construct.engines.decoding import TokenTexts
from nearer.construct.engines.key_values import LayerShape, Rows
from nearer.construct.engines.prompts import Prompts
from nearer.construct.engines.recorded_steps import RecordedSteps
from nearer.encoder.gguf import load_causal_model
from nearer.errors import ModelError, SettingError, first_line

PRECISIONS = {"float32": torch.float32, "bf16": torch.bfloat16, "float64": torch.float64}
PROBE = 12  # tokens of the trial


@dataclass(frozen=True)
class LanguageModel:
    """name: for messages; shapes: of the layers' keys and values; window: tokens of the longest context; records:
    whether its steps can be recorded and replayed."""

    name: str
    model: Any
    tokenizer: Any
    shapes: list[LayerShape]
    window: int
    ends: frozenset[int]
    precision: str
    records: bool = False

    @property
    def dtype(self) -> torch.dtype:
        return PRECISIONS[self.precision]

    @property
    def device(self) -> torch.device:
        device: torch.device = self.model.device
        return device

    def token_texts(self) -> TokenTexts:
        size = self.model.get_output_embeddings().weight.shape[0]
        known = len(self.tokenizer)
        texts = self.tokenizer.batch_decode([[token] for token in range(min(size, known))], skip_special_tokens=True)
        return TokenTexts([*texts, *[""] * (size - len(texts))], self.ends)  # vocabularies are padded at times


def load_language_model(path: Path, device: torch.device, precision: str | None) -> LanguageModel:
    """precision: float32, bf16 or float64; None: float32 on the CPU, bf16 elsewhere."""
    precision = precision or ("float32" if device.type == "cpu" else "bf16")
    if precision not in PRECISIONS:
        raise SettingError(f"precision: {precision!r} is not one of {', '.join(PRECISIONS)}.")
    model, tokenizer = load_causal_model(path, PRECISIONS[precision])
    model = model.to(device).eval()
    shapes = fit_for_rows(model, str(path))
    records = device.type == "cuda" and can_record(model, shapes)
    window, ends = _window(model), _ends(model, tokenizer)
    return LanguageModel(str(path), model, tokenizer, shapes, window, ends, precision, records)


@torch.inference_mode()
def fit_for_rows(model: Any, name: str) -> list[LayerShape]:
    """Try whether `Rows` gives what the model gives by itself, and set the attention with which it does.

    A model that keeps something else than keys and values, or takes its positions from elsewhere, would be decoded
    wrongly without a word.
    """
    tokens, expected = _probe(model)
    own = model.config._attn_implementation
    key_values.register_attention()
    reasons = []
    for implementation in (key_values.ATTENTION, own):
        try:
            model.set_attn_implementation(implementation)
            shapes = _layer_shapes(model, tokens)
            error = _relative_error(_by_rows(model, shapes, tokens.tolist()), expected)
        except Exception as problem:  # models are other people's code
            reasons.append(first_line(problem))
            continue
        if error < _allowed(model):
            return shapes
        reasons.append(f"its scores differ by {error:.0%}")
    raise ModelError(f"{name}: its contexts cannot be decoded side by side ({'; '.join(dict.fromkeys(reasons))}).")


@torch.inference_mode()
def can_record(model: Any, shapes: list[LayerShape]) -> bool:
    """Whether recorded steps give what the model gives by itself. Some models ask the host on their way."""
    tokens, expected = _probe(model)
    try:
        found = _by_rows(model, shapes, tokens.tolist(), recorded=True)
    except Exception:  # models are other people's code; steps that are launched one by one do as well
        return False
    return _relative_error(found, expected) < _allowed(model)


def _probe(model: Any) -> tuple[Tensor, Tensor]:
    """Some tokens, and what the model itself says comes next."""
    tokens = torch.arange(1, PROBE + 1, device=model.device) % model.get_input_embeddings().weight.shape[0]
    return tokens, model(input_ids=tokens[None]).logits[0, -1].double()


def _allowed(model: Any) -> float:
    return 0.1 if model.dtype == torch.bfloat16 else 1e-3


def _layer_shapes(model: Any, tokens: Tensor) -> list[LayerShape]:
    layers = model(input_ids=tokens[None], use_cache=True).past_key_values.layers
    return [LayerShape(layer.keys.shape[1], layer.keys.shape[-1], layer.values.shape[-1]) for layer in layers]


def _by_rows(model: Any, shapes: list[LayerShape], tokens: list[int], *, recorded: bool = False) -> Tensor:
    """The last token's logits, with the others' keys and values kept, in two rows of different length."""
    prompts = Prompts(model.base_model, shapes, model.dtype, model.device, room=64, chunk=64)
    rows = Rows(shapes, model.dtype, model.device)
    contexts = [tuple(tokens[:-2]), tuple(tokens[:3])]
    prompts.compute(contexts)
    rows.put([0, 1], [prompts.tokens(context) for context in contexts], prompts.layers)
    steps = RecordedSteps(model, rows, len(tokens))
    logits = None
    for pair in ([tokens[-2], tokens[3]], [tokens[-1], tokens[4]]):
        given = torch.tensor(pair, device=model.device)
        logits = steps.next_logits(given) if recorded else next_logits(model, rows, given, len(tokens))
    assert logits is not None
    return logits[0].double()


def next_logits(model: Any, rows: Rows, tokens: Tensor, window: int) -> Tensor:
    """(rows, vocabulary): each row's token is added to its context."""
    out = model(
        input_ids=tokens[:, None],
        position_ids=rows.positions(window),
        attention_mask=rows.mask(),
        past_key_values=rows,
        use_cache=True,
    )
    rows.advance()
    logits: Tensor = out.logits[:, -1]
    return logits


def free_memory() -> None:
    """Give back what is no longer used, so that other processes on the GPU can have it."""
    gc.collect()  # what was recorded stands in a cycle
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _relative_error(found: Tensor, expected: Tensor) -> float:
    expected = expected - expected.mean()
    return float((found - found.mean() - expected).norm() / expected.norm().clamp_min(1e-12))


def _window(model: Any) -> int:
    """The longest context. Layers that look back less far see all of it up to there: no row may be longer."""
    config = model.config.get_text_config()
    limits = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions")]
    kinds = getattr(config, "layer_types", None)
    if kinds is None or "sliding_attention" in kinds:
        limits.append(getattr(config, "sliding_window", None))
    return min((limit for limit in limits if limit), default=4096)


def _ends(model: Any, tokenizer: Any) -> frozenset[int]:
    """All tokens by which it may end, whoever names them."""
    named = [model.generation_config.eos_token_id, model.config.get_text_config().eos_token_id, tokenizer.eos_token_id]
    flat = [token for names in named for token in (names if isinstance(names, list | tuple) else [names])]
    return frozenset(int(token) for token in flat if token is not None)
