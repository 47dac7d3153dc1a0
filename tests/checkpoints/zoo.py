"""Tiny random checkpoints of many architectures, in the two forms in which people have them.

`hub`: what `…ForPreTraining`, `…ForMaskedLM` or `…ForCausalLM` saves, as repositories of the hub ship it: weights below
the backbone's prefix, heads beside it. `bare`: what the backbone alone saves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tokenizers_of_all_kinds as kinds
import torch

HUB, BARE = "hub", "bare"


@dataclass(frozen=True)
class Architecture:
    """config: the configuration's class; head: the class a hub checkpoint was saved by; tokenizer: one of `kinds`."""

    config: str
    head: str
    tokenizer: Callable[[Path], Any]
    pooling: str = "mean"
    trailing: int = 0  # padding behind a sentence that belongs to what the model was trained with
    theirs_within: float = 1e-5  # how near sentence-transformers comes
    settings: dict[str, Any] = field(default_factory=dict)


SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
SHORT = {"max_position_embeddings": 80}
GROUPED = {"num_key_value_heads": 2, "head_dim": 8}


def _encoder(
    config: str, head: str, tokenizer: Callable[[Path], Any] = kinds.word_piece, **settings: Any
) -> Architecture:
    return Architecture(config, head, tokenizer, settings={**SHAPE, **SHORT, **settings})


def _decoder(
    config: str, head: str, tokenizer: Callable[[Path], Any] = kinds.byte_level_without_specials, **settings: Any
) -> Architecture:
    return Architecture(config, head, tokenizer, "last_token", settings={**SHAPE, **SHORT, **settings})


def _t5(config: str, head: str, tokenizer: Callable[[Path], Any], **settings: Any) -> Architecture:
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
    return Architecture(config, head, tokenizer, settings={**sizes, **settings})


ARCHITECTURES: dict[str, Architecture] = {
    "bert": _encoder("BertConfig", "BertForPreTraining"),
    "roberta": _encoder("RobertaConfig", "RobertaForMaskedLM", kinds.byte_level),
    "distilbert": Architecture(
        "DistilBertConfig",
        "DistilBertForMaskedLM",
        kinds.word_piece,
        settings={"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, **SHORT},
    ),
    "mpnet": _encoder("MPNetConfig", "MPNetForMaskedLM", pad_token_id=0),
    "mobilebert": Architecture(
        "MobileBertConfig",
        "MobileBertForPreTraining",
        kinds.word_piece,
        trailing=1,
        theirs_within=2e-2,
        settings={**SHAPE, **SHORT, "embedding_size": 16, "intra_bottleneck_size": 16, "intermediate_size": 32},
    ),
    "albert": _encoder("AlbertConfig", "AlbertForPreTraining", kinds.sentencepiece_albert, embedding_size=16),
    "electra": _encoder("ElectraConfig", "ElectraForPreTraining", embedding_size=16),
    "deberta": _encoder(
        "DebertaConfig",
        "DebertaForMaskedLM",
        kinds.byte_level_deberta,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        position_biased_input=False,
    ),
    "deberta-v2": _encoder(
        "DebertaV2Config",
        "DebertaV2ForMaskedLM",
        kinds.sentencepiece_deberta,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        position_biased_input=False,
        type_vocab_size=0,
    ),
    "xlm-roberta": _encoder("XLMRobertaConfig", "XLMRobertaForMaskedLM", kinds.sentencepiece_xlm_roberta),
    "xlm-roberta-xl": _encoder("XLMRobertaXLConfig", "XLMRobertaXLForMaskedLM", kinds.sentencepiece_as_json),
    "camembert": _encoder("CamembertConfig", "CamembertForMaskedLM", kinds.sentencepiece_camembert),
    "xlnet": Architecture(
        "XLNetConfig",
        "XLNetLMHeadModel",
        kinds.sentencepiece_xlnet,
        settings={"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48},
    ),
    "xlm": Architecture(
        "XLMConfig",
        "XLMWithLMHeadModel",
        kinds.word_piece_without_types,
        settings={"emb_dim": 32, "n_layers": 2, "n_heads": 4, **SHORT},
    ),
    "flaubert": Architecture(
        "FlaubertConfig",
        "FlaubertWithLMHeadModel",
        kinds.word_piece_without_types,
        settings={"emb_dim": 32, "n_layers": 2, "n_heads": 4, **SHORT},
    ),
    "ernie": _encoder("ErnieConfig", "ErnieForPreTraining"),
    "big_bird": _encoder("BigBirdConfig", "BigBirdForPreTraining", attention_type="original_full"),
    "fnet": _encoder("FNetConfig", "FNetForPreTraining"),
    "funnel": Architecture(
        "FunnelConfig",
        "FunnelForPreTraining",
        kinds.word_piece,
        settings={
            "d_model": 32,
            "block_sizes": [1, 1],
            "n_head": 4,
            "d_head": 8,
            "d_inner": 48,
            "num_decoder_layers": 1,
        },
    ),
    "convbert": _encoder("ConvBertConfig", "ConvBertForMaskedLM", embedding_size=32, head_ratio=2, conv_kernel_size=3),
    "squeezebert": _encoder("SqueezeBertConfig", "SqueezeBertForMaskedLM", embedding_size=32),
    "megatron-bert": _encoder("MegatronBertConfig", "MegatronBertForPreTraining"),
    "nystromformer": _encoder("NystromformerConfig", "NystromformerForMaskedLM", kinds.word_piece_as_json),
    "roformer": _encoder("RoFormerConfig", "RoFormerForMaskedLM", embedding_size=32),
    "rembert": _encoder(
        "RemBertConfig",
        "RemBertForMaskedLM",
        kinds.sentencepiece_rembert,
        input_embedding_size=16,
        output_embedding_size=24,
    ),
    "data2vec-text": _encoder("Data2VecTextConfig", "Data2VecTextForMaskedLM", kinds.byte_level),
    "ibert": _encoder("IBertConfig", "IBertForMaskedLM", kinds.byte_level),
    "roberta-prelayernorm": _encoder("RobertaPreLayerNormConfig", "RobertaPreLayerNormForMaskedLM", kinds.byte_level),
    "xmod": _encoder("XmodConfig", "XmodForMaskedLM", kinds.sentencepiece_xlm_roberta, default_language="en_XX"),
    "yoso": _encoder("YosoConfig", "YosoForMaskedLM", use_expectation=True),
    "mra": _encoder("MraConfig", "MraForMaskedLM"),
    "longformer": _encoder("LongformerConfig", "LongformerForMaskedLM", kinds.byte_level, attention_window=[8, 8]),
    "luke": _encoder("LukeConfig", "LukeForMaskedLM", kinds.byte_level, entity_vocab_size=10, entity_emb_size=16),
    "layoutlm": _encoder("LayoutLMConfig", "LayoutLMForMaskedLM"),
    "splinter": _encoder("SplinterConfig", "SplinterForPreTraining"),
    "roc_bert": _encoder("RoCBertConfig", "RoCBertForPreTraining"),
    "canine": _encoder(
        "CanineConfig",
        "CanineForSequenceClassification",
        kinds.characters,
        max_position_embeddings=256,
        local_transformer_stride=16,
    ),
    "modernbert": _encoder("ModernBertConfig", "ModernBertForMaskedLM", kinds.word_piece_as_json),
    "eurobert": _encoder("EuroBertConfig", "EuroBertForMaskedLM", kinds.byte_level_eurobert, **GROUPED),
    "nomic_bert": _encoder("NomicBertConfig", "NomicBertForMaskedLM"),
    "gte": _encoder("GteConfig", "GteForMaskedLM"),
    "jina_embeddings_v3": _encoder(
        "JinaEmbeddingsV3Config", "JinaEmbeddingsV3ForMaskedLM", kinds.sentencepiece_xlm_roberta
    ),
    "bert-generation": _encoder("BertGenerationConfig", "BertGenerationDecoder", kinds.sentencepiece_t5),
    "t5": _t5("T5Config", "T5ForConditionalGeneration", kinds.sentencepiece_t5),
    "byt5": _t5("T5Config", "T5ForConditionalGeneration", kinds.bytes_alone),
    "mt5": _t5("MT5Config", "MT5ForConditionalGeneration", kinds.sentencepiece_t5),
    "umt5": _t5("UMT5Config", "UMT5ForConditionalGeneration", kinds.sentencepiece_as_json),
    "bart": Architecture(
        "BartConfig",
        "BartForConditionalGeneration",
        kinds.byte_level,
        settings={
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 48,
            **SHORT,
        },
    ),
    "gpt2": _decoder("GPT2Config", "GPT2LMHeadModel"),
    "gpt_neo": _decoder("GPTNeoConfig", "GPTNeoForCausalLM", attention_types=[[["global", "local"], 1]]),
    "gpt_neox": _decoder("GPTNeoXConfig", "GPTNeoXForCausalLM"),
    "opt": _decoder("OPTConfig", "OPTForCausalLM", kinds.byte_level_opt, ffn_dim=48, word_embed_proj_dim=32),
    "bloom": _decoder("BloomConfig", "BloomForCausalLM"),
    "llama": _decoder("LlamaConfig", "LlamaForCausalLM", kinds.sentencepiece_llama, **GROUPED),
    "mistral": _decoder("MistralConfig", "MistralForCausalLM", kinds.sentencepiece_llama, **GROUPED),
    "qwen2": _decoder("Qwen2Config", "Qwen2ForCausalLM", kinds.byte_level_qwen, num_key_value_heads=2),
    "qwen3": _decoder("Qwen3Config", "Qwen3ForCausalLM", kinds.byte_level_qwen, **GROUPED),
    "gemma": _decoder("GemmaConfig", "GemmaForCausalLM", kinds.sentencepiece_gemma, **GROUPED),
    "gemma2": _decoder("Gemma2Config", "Gemma2ForCausalLM", kinds.sentencepiece_gemma, **GROUPED),
    "gemma3_text": _decoder("Gemma3TextConfig", "Gemma3ForCausalLM", kinds.sentencepiece_gemma, **GROUPED),
    "phi": _decoder("PhiConfig", "PhiForCausalLM"),
    "phi3": _decoder("Phi3Config", "Phi3ForCausalLM", kinds.sentencepiece_llama, pad_token_id=0),
    "smollm3": _decoder("SmolLM3Config", "SmolLM3ForCausalLM", num_key_value_heads=2),
    "falcon": _decoder("FalconConfig", "FalconForCausalLM"),
    "olmo2": _decoder("Olmo2Config", "Olmo2ForCausalLM", kinds.byte_level_as_json),
}


@functools.cache
def make(name: str, form: str, root: Path) -> Path:
    """A folder with the checkpoint, made once."""
    import transformers

    architecture = ARCHITECTURES[name]
    folder = root / f"{name}-{form}"
    folder.mkdir(parents=True)
    tokenizer = architecture.tokenizer(folder)
    sizes: dict[str, Any] = {"vocab_size": len(tokenizer)}
    for key in ("pad_token_id", "bos_token_id", "eos_token_id"):
        sizes[key] = getattr(tokenizer, key)
    config = getattr(transformers, architecture.config)(**{**sizes, **architecture.settings})
    torch.manual_seed(5)
    model = getattr(transformers, architecture.head)(config)
    _draw(model)
    if form == BARE:
        model = _backbone(model, config)
    model.save_pretrained(folder)
    return folder


def _backbone(model: Any, config: Any) -> Any:
    from transformers import AutoModelForTextEncoding

    if model.base_model is not model:
        return model.base_model
    encoder = AutoModelForTextEncoding.from_config(config)
    encoder.load_state_dict(model.state_dict(), strict=False)
    return encoder


def _draw(model: torch.nn.Module) -> None:
    """Weights as a trained model has them: a fresh one is so even that faults hide in it."""
    generator = torch.Generator().manual_seed(6)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator) * 0.05)
