"""What an encoder needs besides its weights to turn a sentence into a vector."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearer.encoder.pooling import check_pooling
from nearer.errors import SettingError
from nearer.text.tokenise import normalisation


@dataclass(frozen=True)
class EncoderSettings:
    """Saved with the model and written beside every score.

    normalize: vectors leave `encode` with length 1; prompts: texts put before each sentence, by name, which may be
    empty; pool_prompt: whether the prompt's tokens count in the pooling. truncate_dim: only so many leading numbers of
    a vector are kept; vectors of length 1 are made so afterwards.
    """

    pooling: str
    max_length: int
    normalize: bool = False
    text_normalisation: str = "none"
    prompts: dict[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    pool_prompt: bool = True
    truncate_dim: int | None = None

    def __post_init__(self) -> None:
        check_pooling(self.pooling)
        normalisation(self.text_normalisation)
        if self.max_length < 3:
            raise SettingError(f"max_length: {self.max_length} leaves no room for a sentence (3 at least).")
        if self.truncate_dim is not None and (type(self.truncate_dim) is not int or self.truncate_dim < 1):
            raise SettingError(f"truncate_dim: {self.truncate_dim!r} is no number of dimensions (1 at least).")

    def prompt(self, name: str | None) -> str:
        """The text of a prompt; None asks for the model's default, which may be none at all."""
        name = self.default_prompt if name is None else name
        if name is None:
            return ""
        if name not in self.prompts:
            known = ", ".join(self.prompts) or "none"
            raise SettingError(f"prompt: the model has no prompt {name!r}; it has: {known}.")
        return self.prompts[name]
