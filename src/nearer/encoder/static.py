"""Static embeddings (model2vec, potion, sentence-transformers' StaticEmbedding): a sentence is the mean of its tokens'
vectors, without context and without special tokens. As the backbone of an `Encoder` they can do what any encoder can,
except learn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch import Tensor, nn

from nearer.encoder.tokenizer import check_token_ids
from nearer.errors import ModelError, first_line

TOKENIZER_FILE, WEIGHTS_FILE = "tokenizer.json", "model.safetensors"
UNKNOWN = "Naïve 東京 \u2603"
ANY_LENGTH = 1_000_000  # tokens: for a model that says nothing of a longest sentence


@dataclass(frozen=True)
class StaticConfig:
    """What others ask of a backbone's configuration."""

    hidden_size: int
    vocab_size: int
    model_type: str = "static_embedding"
    num_hidden_layers: int = 0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class StaticBackbone(nn.Module):
    """Each token's vector, whatever stands beside it."""

    def __init__(self, table: Tensor) -> None:
        """table: (vocabulary, dimension), float32."""
        super().__init__()
        self.embedding = nn.Embedding(table.shape[0], table.shape[1], _weight=table)
        self.config = StaticConfig(hidden_size=table.shape[1], vocab_size=table.shape[0])

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, output_hidden_states: bool = False
    ) -> SimpleNamespace:
        states = self.embedding(input_ids)
        return SimpleNamespace(last_hidden_state=states, hidden_states=(states,) if output_hidden_states else None)


def load_static(folder: Path, weights: Mapping[str, Tensor]) -> tuple[StaticBackbone, Any]:
    """The table of a StaticEmbedding module, and its tokenizer. weights: those of the module's file."""
    if "embedding.weight" in weights:
        table = weights["embedding.weight"].float()
    elif "embeddings" in weights:
        try:
            table = _model2vec_table(weights)
        except (RuntimeError, IndexError) as error:
            raise ModelError(f"{folder}: its weights do not fit each other ({first_line(error)}).") from None
    else:
        raise ModelError(f"{folder}: its weights have neither 'embedding.weight' nor 'embeddings'.")
    tokenizer = _load_tokenizer(folder)
    if table.ndim != 2 or len(table) < len(tokenizer):
        raise ModelError(f"{folder}: has vectors of shape {tuple(table.shape)} for {len(tokenizer):,} tokens.")
    return StaticBackbone(table.contiguous()), tokenizer


def _model2vec_table(weights: Mapping[str, Tensor]) -> Tensor:
    """model2vec may keep one vector for several tokens (`mapping`) and a weight for each token (`weights`)."""
    table = weights["embeddings"].float()
    if "mapping" in weights:
        table = table[weights["mapping"].long()]
    if "weights" in weights:
        table = table * weights["weights"].float()[:, None]
    return table


def _load_tokenizer(folder: Path) -> Any:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    path = folder / TOKENIZER_FILE
    if not path.exists():
        raise ModelError(f"{path}: is missing; a StaticEmbedding has its tokenizer there.")
    check_token_ids(path)
    try:
        backend = Tokenizer.from_file(str(path))
        backend.encode(UNKNOWN)  # where a tokenizer without a token for it fails
    except Exception as error:  # tokenizers raises plain exceptions
        raise ModelError(f"{path}: cannot be read ({first_line(error)}).") from None
    longest = (backend.truncation or {}).get("max_length", ANY_LENGTH)
    backend.no_padding()
    backend.no_truncation()
    backend.post_processor = None  # which would add special tokens: the mean is over the sentence's own
    wrapper: Any = PreTrainedTokenizerFast
    return wrapper(tokenizer_object=backend, model_max_length=longest)


def save_static(backbone: StaticBackbone, tokenizer: Any, folder: Path, *, max_length: int) -> None:
    """As sentence-transformers' StaticEmbedding reads it; a longest sentence is the tokenizer's business there."""
    from safetensors.torch import save_file

    save_file({"embedding.weight": backbone.embedding.weight.detach().cpu().contiguous()}, folder / WEIGHTS_FILE)
    backend = tokenizer.backend_tokenizer
    backend.no_padding()
    backend.no_truncation()
    if max_length < ANY_LENGTH:
        backend.enable_truncation(max_length)
    backend.save(str(folder / TOKENIZER_FILE))
