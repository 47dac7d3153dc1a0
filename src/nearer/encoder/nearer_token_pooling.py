"""Pooling at one token of a template, for sentence-transformers: this file lies beside a model that is pooled so.

It needs torch alone. `token` is the index of the pooled token: from 0, or below 0 from the end of the text's tokens.
sentence-transformers runs it for a local folder, and with `trust_remote_code=True` for a model of the hub.
"""

import json
from pathlib import Path

import torch


class TokenPooling(torch.nn.Module):
    """The last layer's state of one token."""

    def __init__(self, token: int, dimension: int) -> None:
        super().__init__()
        self.token = token
        self.dimension = dimension

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        states, mask = features["token_embeddings"], features["attention_mask"].int()
        if self.token >= 0:
            index = mask.argmax(dim=1) + self.token
        else:  # padding may stand on either side
            index = mask.shape[1] - mask.flip(1).argmax(dim=1) + self.token
        rows = torch.arange(states.shape[0], device=states.device)
        features["sentence_embedding"] = states[rows, index]
        return features

    def get_embedding_dimension(self) -> int:
        return self.dimension

    get_sentence_embedding_dimension = get_embedding_dimension

    def get_config_dict(self) -> dict[str, int]:
        return {"token": self.token, "dimension": self.dimension}

    def save(self, output_path: str, *args: object, **kwargs: object) -> None:
        with Path(output_path, "config.json").open("w", encoding="utf-8") as file:
            json.dump(self.get_config_dict(), file, indent=2)

    @staticmethod
    def load(input_path: str) -> "TokenPooling":
        with Path(input_path, "config.json").open(encoding="utf-8") as file:
            return TokenPooling(**json.load(file))
