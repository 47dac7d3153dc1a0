"""What an encoder has besides its backbone: settings, and the layers that may follow pooling.

The layers are the head of SimCSE, and Dense, LayerNorm and Normalize modules of other models.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from nearer.encoder.pooling import AT_TEMPLATE, check_pooling
from nearer.encoder.template import Template
from nearer.errors import ModelError, SettingError
from nearer.text.tokenise import normalisation

# The activations known by name; a model that names any other is refused instead of importing what it names.
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "Identity": nn.Identity,
    "Tanh": nn.Tanh,
    "ReLU": nn.ReLU,
    "GELU": nn.GELU,
    "SiLU": nn.SiLU,
    "Sigmoid": nn.Sigmoid,
}


class Dense(nn.Module):
    """`activation(linear(x))`, with the weights' names of sentence-transformers' Dense."""

    def __init__(self, size_in: int, size_out: int, *, bias: bool = True, activation: str = "Tanh") -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ModelError(f"activation {activation!r} of a Dense layer is not one of {', '.join(ACTIVATIONS)}.")
        self.linear = nn.Linear(size_in, size_out, bias=bias)
        self.activation_name = activation
        self.activation = ACTIVATIONS[activation]()

    @property
    def size_in(self) -> int:
        return self.linear.in_features

    @property
    def size_out(self) -> int:
        return self.linear.out_features

    def forward(self, vectors: Tensor) -> Tensor:
        # means over tokens come in float32 whatever the weights are
        output: Tensor = self.activation(self.linear(vectors.to(self.linear.weight.dtype)))
        return output


class Norm(nn.Module):
    """Layer normalisation, with the weights' names of sentence-transformers' LayerNorm."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)

    @property
    def size_out(self) -> int:
        return int(self.norm.normalized_shape[0])

    size_in = size_out

    def forward(self, vectors: Tensor) -> Tensor:
        output: Tensor = self.norm(vectors.to(self.norm.weight.dtype))
        return output


class UnitLength(nn.Module):
    """Vectors of length 1, where another layer or a truncation follows; at the very end it is a setting."""

    def forward(self, vectors: Tensor) -> Tensor:
        return nn.functional.normalize(vectors, dim=-1)


Projection = Dense | Norm | UnitLength


def new_head(size: int, generator: torch.Generator | None = None) -> Dense:
    """SimCSE's head: Linear(h, h) and tanh, drawn from N(0, 0.02) with zero bias, whatever the backbone's pooler."""
    head = Dense(size, size)
    nn.init.normal_(head.linear.weight, std=0.02, generator=generator)
    nn.init.zeros_(head.linear.bias)
    return head


@dataclass(frozen=True)
class EncoderSettings:
    """Saved with the model and written beside every score.

    Attributes:
        pooling: How the states of a text's tokens become one vector; `cls+mean` joins two.
        max_length: How many tokens of a text are read, special ones included.
        normalize: Vectors leave `encode` with length 1.
        text_normalisation: What is done to a text before it is tokenised.
        prompts: Texts put before each sentence, by name, which may be empty.
        default_prompt: The prompt that is used unless another one is named.
        pool_prompt: Whether the prompt's tokens count in the pooling.
        truncate_dim: Only so many leading numbers of a vector are kept; vectors of length 1 are made so afterwards.
        template: Text around each sentence, which its tokenizer adds.

    Examples:
        >>> import nearer
        >>> settings = nearer.EncoderSettings("mean", 32, prompts={"query": "query: "})
        >>> settings.prompt("query")
        'query: '
    """

    pooling: str
    max_length: int
    normalize: bool = False
    text_normalisation: str = "none"
    prompts: dict[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    pool_prompt: bool = True
    truncate_dim: int | None = None
    template: Template | None = None

    def __post_init__(self) -> None:
        check_pooling(self.pooling)
        normalisation(self.text_normalisation)
        if self.max_length < 3:
            raise SettingError(f"max_length: {self.max_length} leaves no room for a sentence (3 at least).")
        if self.truncate_dim is not None and (type(self.truncate_dim) is not int or self.truncate_dim < 1):
            raise SettingError(f"truncate_dim: {self.truncate_dim!r} is no number of dimensions (1 at least).")
        if self.pooling in AT_TEMPLATE and self.pooled_token is None:
            raise SettingError("pooling: mask reads the [MASK] of a template; name one, such as promptbert (template).")
        if self.template is not None:
            check_room(self.template.size, self.max_length)

    @property
    def pooled_token(self) -> int | None:
        """The index of the template's mask token, below 0 from the end of a row."""
        return None if self.template is None else self.template.mask

    def prompt(self, name: str | None) -> str:
        """The text of a prompt; None asks for the model's default, which may be none at all."""
        name = self.default_prompt if name is None else name
        if name is None:
            return ""
        if name not in self.prompts:
            known = ", ".join(self.prompts) or "none"
            raise SettingError(f"prompt: the model has no prompt {name!r}; it has: {known}.")
        return self.prompts[name]


def check_room(template: int, max_length: int) -> None:
    """template: its tokens, special ones included."""
    if max_length <= template:
        raise SettingError(
            f"template: has {template} tokens with the special ones, and max_length is {max_length}: nothing is left "
            f"for the sentence; set max_length to {template + 1} or more, or shorten the template."
        )
