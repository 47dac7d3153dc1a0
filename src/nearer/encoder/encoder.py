"""The sentence encoder: a transformers backbone, a pooling, and a head that may be for training only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nearer.encoder.batching import CutTexts, Tokenised
from nearer.encoder.comparing import ByCosine, Vectors, listed
from nearer.encoder.encoding import BulkEncoding, check_sentences
from nearer.encoder.folder import load_parts, save_parts
from nearer.encoder.network import SentenceNetwork, at_inference
from nearer.encoder.sources import model_folder
from nearer.errors import SettingError


class Encoder(ByCosine, SentenceNetwork):
    """Turns sentences into vectors whose cosine says how near they are in meaning.

    Load one with `Encoder.load`; `encode`, `similarity` and `rank` use it; `save` writes a folder that
    sentence-transformers reads too. As a module it is a `SentenceNetwork`.

    Attributes:
        precision: What encoding computes in unless told otherwise: float32, bf16, or int8 on the CPU.

    Examples:
        >>> import nearer
        >>> encoder = nearer.Encoder.load("wiki-mini", pooling="mean")
        >>> encoder.encode(["A man is eating.", "It rains."]).shape
        (2, 256)
        >>> encoder.rank("Somebody has lunch.", ["A man is eating.", "It rains."])[0].sentence
        'A man is eating.'
    """

    scoring = "cosine"

    @classmethod
    def load(
        cls,
        name: str | Path,
        *,
        pooling: str | None = None,
        max_length: int | None = None,
        text_normalisation: str | None = None,
        template: str | None = None,
        pooler_as_head: bool = False,
        device: str | torch.device | None = None,
        revision: str | None = None,
        route: str | None = None,
        trust_remote_code: bool = False,
        allow_pickle: bool = False,
        overrides: Mapping[str, Any] | None = None,
        dropout: float | None = None,
    ) -> Encoder:
        """Load a model by folder, bundled name or hub name.

        Args:
            name: The folder or the name.
            pooling: Needed for a plain checkpoint; for a model that has one, replaces it.
            max_length: How many tokens of a text are read; None does as the model says.
            text_normalisation: What is done to a text before it is tokenised; None does as the model says.
            template: Text around each sentence with {sentence} in it, or a name (promptbert, prompteol …); its [MASK],
                else its last token, becomes the vector unless `pooling` says otherwise.
            pooler_as_head: Take the checkpoint's own pooling layer as the head (published supervised SimCSE models).
            device: Where it computes; None takes a GPU if there is one.
            revision: Of a model on the hub.
            route: Of a model with a Router (query, document …); None takes its default one.
            trust_remote_code: Run code that comes with the model.
            allow_pickle: Read weights that are there as pickles only (pytorch_model.bin); nothing in them is run.
            overrides: Settings of the backbone's configuration, by its own names.
            dropout: All dropout rates of the backbone.
        """
        folder = model_folder(name, revision=revision, remote_code=trust_remote_code, allow_pickle=allow_pickle)
        parts = load_parts(
            folder,
            pooling=pooling,
            max_length=max_length,
            text_normalisation=text_normalisation,
            template=template,
            pooler_as_head=pooler_as_head,
            trust_remote_code=trust_remote_code,
            overrides=overrides,
            dropout=dropout,
            route=route,
        )
        encoder = cls(**parts, name=str(name), source=folder)
        encoder.eval()
        return encoder.to(chosen_device(device))

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the encoder as it is at inference, in the layout of sentence-transformers.

        A head that is for training only is not part of it. A folder that is there already is left alone
        unless `overwrite` is set, and then replaced as a whole.
        """
        save_parts(self, Path(folder), overwrite=overwrite)

    def encode(
        self,
        sentences: str | Iterable[str],
        *,
        batch_tokens: int | None = None,
        batch_size: int | None = None,
        normalize: bool | None = None,
        precision: str | None = None,
        progress: bool = False,
        prompt_name: str | None = None,
    ) -> Vectors:
        """Vectors of sentences, float32.

        Args:
            sentences: One string, or several.
            batch_tokens: Tokens, padding included, that pass the model together; None chooses by the device.
            batch_size: How many sentences these may be at most.
            normalize: Vectors of length 1; None does as the model says.
            precision: float32, bf16 or int8; None is the encoder's.
            progress: Show a bar.
            prompt_name: One of the model's prompts.

        Shapes:
            (dimension,) for one string, (sentences, dimension) for several.
        """
        one = isinstance(sentences, str)
        bulk = self._bulk(normalize, precision, prompt_name, batch_tokens, batch_size)
        texts = [sentences] if isinstance(sentences, str) else listed(sentences, "sentences")
        vectors = bulk.encode(texts, progress=progress)
        return vectors[0] if one else vectors

    def tokenised(self, sentences: Sequence[str], *, prompt_name: str | None = None) -> Tokenised:
        """Sentences made ready for `encode_tokens`: for those that are encoded again and again."""
        check_sentences(sentences)
        return self._bulk(prompt_name=prompt_name).tokenise(sentences)

    def encode_tokens(
        self,
        tokenised: Tokenised,
        *,
        batch_tokens: int | None = None,
        normalize: bool | None = None,
        precision: str | None = None,
    ) -> Tensor:
        """Vectors (sentences, dimension), float32, on the encoder's device; on a GPU without waiting for them."""
        with at_inference(self):
            return self._bulk(normalize, precision, batch_tokens=batch_tokens).vectors(tokenised)

    def _bulk(
        self,
        normalize: bool | None = None,
        precision: str | None = None,
        prompt_name: str | None = None,
        batch_tokens: int | None = None,
        batch_size: int | None = None,
    ) -> BulkEncoding:
        return BulkEncoding(
            self,
            normalize=self.settings.normalize if normalize is None else normalize,
            precision=precision or self.precision,
            prompt=self.settings.prompt(prompt_name),
            batch_tokens=batch_tokens,
            batch_size=batch_size,
        )

    @property
    def cut_texts(self) -> CutTexts:
        """How many texts it encoded so far, and of how many it left out the end."""
        return self.cut_counter.found(self.settings.max_length)


def chosen_device(device: str | torch.device | None) -> torch.device:
    """The device of this name, if it can be used; None stands for a GPU if there is one."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise SettingError(f"device: {device!r} cannot be used here ({str(error).splitlines()[0]}).") from None
    return chosen
