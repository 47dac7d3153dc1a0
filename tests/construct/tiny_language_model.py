"""A random Llama that ends its sentences: for lists through a real engine."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = ["the", "fox", "dog", "man", "rain", "eats", "comes", "jumps", "has", "lunch", "again", "far", "away", "say"]
WINDOW = 96


def make_language_model(folder: Path) -> Path:
    """Drawn tokens end after some ten of them; the best ones end at once or go round in a circle."""
    if folder.exists():
        return folder
    pieces = ["<unk>", "<s>", "</s>", *WORDS]
    tokenizer = Tokenizer(models.WordLevel({piece: n for n, piece in enumerate(pieces)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    fast.chat_template = "{{ bos_token }}{% for m in messages %} {{ m['content'] }}{% endfor %} say"
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=len(pieces),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=WINDOW,
        bos_token_id=1,
        eos_token_id=2,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder
