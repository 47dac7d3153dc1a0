"""Tokenizers in the files that hub repositories have, some without `tokenizer.json`, some without any file at all.

Each function writes its files into a folder and returns the tokenizer as transformers loads it from there.
"""

from __future__ import annotations

import functools
import io
import json
from pathlib import Path
from typing import Any

TEXT = [
    "A man is eating lunch.",
    "Someone has a meal.",
    "The quick brown fox jumps over the lazy dog, again and again, until the evening comes.",
    "Why would anybody measure sentences by the nearness of their meaning?",
    "rain comes from far away and someone has lunch with a quick dog",
]
LONGEST = 64


def word_piece(folder: Path, **settings: Any) -> Any:
    """BERT's: `vocab.txt` alone."""
    words = sorted({word.strip(".,?").lower() for line in TEXT for word in line.split()})
    letters = sorted(set("".join(words)))
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, ".", ",", "?", *letters, *[f"##{letter}" for letter in letters], *words]
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in dict.fromkeys(pieces)))
    return _loaded(folder, "BertTokenizer", do_lower_case=True, **settings)


def word_piece_without_types(folder: Path) -> Any:
    """For models that take another meaning from token types (XLM)."""
    return word_piece(folder, model_input_names=["input_ids", "attention_mask"])


def word_piece_as_json(folder: Path) -> Any:
    """ModernBERT's: `tokenizer.json`, made for the general class."""
    from transformers import PreTrainedTokenizerFast

    return _as_json(folder, word_piece(folder), "vocab.txt", PreTrainedTokenizerFast)


def sentencepiece_as_json(folder: Path) -> Any:
    from transformers import PreTrainedTokenizerFast

    return _as_json(folder, sentencepiece_t5(folder), "spiece.model", PreTrainedTokenizerFast)


def byte_level_as_json(folder: Path) -> Any:
    from transformers import PreTrainedTokenizerFast

    return _as_json(folder, byte_level_without_specials(folder), "vocab.json", PreTrainedTokenizerFast)


def byte_level(folder: Path, kind: str = "RobertaTokenizer", **settings: Any) -> Any:
    """RoBERTa's: `vocab.json` and `merges.txt`."""
    vocabulary, merges = _merges()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    return _byte_level(folder, kind, [*special, *vocabulary, "<mask>"], merges, **settings)


def byte_level_deberta(folder: Path) -> Any:
    vocabulary, merges = _merges()
    special = ["[CLS]", "[PAD]", "[SEP]", "[UNK]"]
    return _byte_level(folder, "DebertaTokenizer", [*special, *vocabulary, "[MASK]"], merges)


def byte_level_opt(folder: Path) -> Any:
    """OPT's: a token before each sentence, none behind it."""
    return byte_level(
        folder, "GPT2Tokenizer", bos_token="</s>", eos_token="</s>", pad_token="<pad>", add_bos_token=True
    )


def byte_level_without_specials(folder: Path) -> Any:
    """GPT-2's: no token around a sentence, and none to pad with."""
    vocabulary, merges = _merges()
    return _byte_level(folder, "GPT2Tokenizer", [*vocabulary, "<|endoftext|>"], merges)


def byte_level_qwen(folder: Path) -> Any:
    """Qwen's: nothing around a sentence, padding of its own."""
    vocabulary, merges = _merges()
    return _byte_level(
        folder,
        "Qwen2Tokenizer",
        [*vocabulary, "<|endoftext|>"],
        merges,
        eos_token="<|endoftext|>",
        pad_token="<|endoftext|>",
    )


def byte_level_eurobert(folder: Path) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary, merges = _merges()
    pieces = {piece: n for n, piece in enumerate([*vocabulary, "<|begin|>", "<|end|>", "<|pad|>", "<|mask|>"])}
    tokenizer = Tokenizer(models.BPE(pieces, [tuple(merge.split()) for merge in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    around = [("<|begin|>", pieces["<|begin|>"]), ("<|end|>", pieces["<|end|>"])]
    tokenizer.post_processor = processors.TemplateProcessing(single="<|begin|> $A <|end|>", special_tokens=around)
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<|begin|>",
        eos_token="<|end|>",
        pad_token="<|pad|>",
        mask_token="<|mask|>",
        model_max_length=LONGEST,
    )
    made.save_pretrained(folder)
    return made


def sentencepiece_albert(folder: Path) -> Any:
    symbols = "[CLS],[SEP],[MASK]"
    (folder / "spiece.model").write_bytes(
        _sentencepiece(f"--pad_id=0 --unk_id=1 --bos_id=-1 --eos_id=-1 --control_symbols={symbols} --pad_piece=<pad>")
    )
    return _loaded(folder, "AlbertTokenizer")


def sentencepiece_deberta(folder: Path) -> Any:
    pieces = "--pad_piece=[PAD] --bos_piece=[CLS] --eos_piece=[SEP] --unk_piece=[UNK] --control_symbols=[MASK]"
    (folder / "spm.model").write_bytes(_sentencepiece(f"--pad_id=0 --bos_id=1 --eos_id=2 --unk_id=3 {pieces}"))
    return _loaded(folder, "DebertaV2Tokenizer")


def sentencepiece_xlm_roberta(folder: Path) -> Any:
    (folder / "sentencepiece.bpe.model").write_bytes(_sentencepiece("--unk_id=0 --bos_id=1 --eos_id=2"))
    return _loaded(folder, "XLMRobertaTokenizer")


def sentencepiece_camembert(folder: Path) -> Any:
    (folder / "sentencepiece.bpe.model").write_bytes(_sentencepiece("--unk_id=0 --bos_id=1 --eos_id=2"))
    return _loaded(folder, "CamembertTokenizer")


def sentencepiece_rembert(folder: Path) -> Any:
    symbols = "[CLS],[SEP],[MASK]"
    (folder / "sentencepiece.model").write_bytes(
        _sentencepiece(f"--pad_id=0 --unk_id=1 --bos_id=-1 --eos_id=-1 --control_symbols={symbols}")
    )
    return _loaded(folder, "RemBertTokenizer")


def sentencepiece_xlnet(folder: Path) -> Any:
    symbols = "<cls>,<sep>,<pad>,<mask>,<eod>,<eop>"
    (folder / "spiece.model").write_bytes(
        _sentencepiece(f"--unk_id=0 --bos_id=1 --eos_id=2 --control_symbols={symbols}")
    )
    return _loaded(folder, "XLNetTokenizer")


def sentencepiece_t5(folder: Path) -> Any:
    (folder / "spiece.model").write_bytes(_sentencepiece("--pad_id=0 --eos_id=1 --unk_id=2 --bos_id=-1"))
    return _loaded(folder, "T5Tokenizer", extra_ids=4)


def sentencepiece_llama(folder: Path) -> Any:
    """Llama's: a token before each sentence, none to pad with."""
    (folder / "tokenizer.model").write_bytes(
        _sentencepiece("--model_type=bpe --byte_fallback=true --unk_id=0 --bos_id=1 --eos_id=2 --pad_id=-1", size=360)
    )
    return _loaded(folder, "LlamaTokenizer")


def sentencepiece_gemma(folder: Path) -> Any:
    (folder / "tokenizer.model").write_bytes(
        _sentencepiece("--model_type=bpe --byte_fallback=true --pad_id=0 --eos_id=1 --bos_id=2 --unk_id=3", size=360)
    )
    return _loaded(folder, "GemmaTokenizer")


def bytes_alone(folder: Path) -> Any:
    """ByT5's: there is nothing to put in a file."""
    return _loaded(folder, "ByT5Tokenizer", extra_ids=4)


def characters(folder: Path) -> Any:
    """CANINE's, likewise."""
    return _loaded(folder, "CanineTokenizer")


def _as_json(folder: Path, tokenizer: Any, left_over: str, kind: Any) -> Any:
    (folder / left_over).unlink()
    names = ("bos_token", "eos_token", "cls_token", "sep_token", "pad_token", "unk_token", "mask_token")
    special = {name: getattr(tokenizer, name) for name in names if getattr(tokenizer, name) is not None}
    made = kind(tokenizer_object=tokenizer.backend_tokenizer, model_max_length=LONGEST, **special)
    made.save_pretrained(folder)
    return made


def _loaded(folder: Path, kind: str, **settings: Any) -> Any:
    from transformers import AutoTokenizer

    facts = {"tokenizer_class": kind, "model_max_length": LONGEST, **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts))
    return AutoTokenizer.from_pretrained(folder)


def _byte_level(folder: Path, kind: str, vocabulary: list[str], merges: list[str], **settings: Any) -> Any:
    (folder / "vocab.json").write_text(json.dumps({piece: n for n, piece in enumerate(vocabulary)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{merge}\n" for merge in merges))
    return _loaded(folder, kind, **settings)


@functools.cache
def _merges() -> tuple[list[str], list[str]]:
    """A small byte-level vocabulary, made by hand so that it is the same everywhere."""
    from tokenizers import pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = ["Ġ t", "h e", "a n", "e r", "Ġ a", "i n", "Ġt he"]
    return [*alphabet, *["".join(pair.split()) for pair in pairs]], pairs


@functools.cache
def _sentencepiece(flags: str, size: int = 96) -> bytes:
    import sentencepiece

    model = io.BytesIO()
    options = dict(flag.removeprefix("--").split("=", 1) for flag in flags.split())
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 4),
        model_writer=model,
        vocab_size=size,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    return model.getvalue()
