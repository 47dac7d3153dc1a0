"""What an encoder needs besides its weights to turn a sentence into a vector."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearer.encoder.pooling import check_pooling
from nearer.errors import SettingError
from nearer.text.normalise import normalisation


@dataclass(frozen=True)
class EncoderSettings:
    """Saved with the model and written beside every score.

    normalize: vectors leave `encode` with length 1; prompts: texts put before each sentence, by name;
    pool_prompt: whether the prompt's tokens count in the pooling.
    """

    pooling: str
    max_length: int
    normalize: bool = False
    text_normalisation: str = "none"
    prompts: dict[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    pool_prompt: bool = True

    def __post_init__(self) -> None:
        check_pooling(self.pooling)
        normalisation(self.text_normalisation)
        if self.max_length < 3:
            raise SettingError(f"max_length: {self.max_length} leaves no room for a sentence (3 at least).")

    def prompt(self, name: str | None) -> str:
        """The text of a prompt; None asks for the model's default, which may be none at all."""
        name = self.default_prompt if name is None else name
        if name is None:
            return ""
        if name not in self.prompts:
            known = ", ".join(self.prompts) or "none"
            raise SettingError(f"prompt: the model has no prompt {name!r}; it has: {known}.")
        return self.prompts[name]
