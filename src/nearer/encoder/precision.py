"""An encoder's backbone in lower precision: bfloat16, or int8 on the CPU. And a cross-encoder in bfloat16 or float16.

Of an encoder only the backbone is lowered; pooling, head and projections stay in float32, and so do the vectors.

A processor without bfloat16 products (an older arm64 or x86-64) gets weights rounded to bfloat16, and float32
arithmetic: torch would compute such products number by number there, hundreds of times slower (docs/performance.md).
"""

from __future__ import annotations

import copy
import platform
import warnings
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from nearer.errors import SettingError

PRECISIONS = ("float32", "bf16", "int8")


def check_precision(precision: str, device: torch.device) -> None:
    if precision not in PRECISIONS:
        raise SettingError(f"precision: {precision!r} is not one of {', '.join(PRECISIONS)}.")
    if precision == "int8" and device.type != "cpu":
        raise SettingError(f"precision: int8 is for the CPU, this encoder is on {device}; use bf16 there.")


class LoweredBackbones:
    """Copies of a backbone in lower precision, each made when first asked for and kept while the weights stay.

    That weights have changed is seen by torch's own count of changes; those made through `.data` escape it.
    """

    def __init__(self) -> None:
        self._copies: dict[str, tuple[object, nn.Module]] = {}

    def forget(self) -> None:
        """Take all copies for outdated: for weights that were changed where torch does not count."""
        self._copies = {precision: (None, backbone) for precision, (_, backbone) in self._copies.items()}

    def clear(self) -> None:
        """Free the memory of all copies."""
        self._copies = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> LoweredBackbones:
        return LoweredBackbones()

    def __reduce__(self) -> tuple[Any, ...]:
        return LoweredBackbones, ()

    def backbone(self, backbone: nn.Module, precision: str) -> nn.Module:
        state = _state_of(backbone)
        kept, lowered = self._copies.get(precision, (None, None))
        if lowered is None or kept != state:
            lowered = _refreshed(lowered, backbone, precision)
            self._copies[precision] = state, lowered
        return lowered


def _state_of(backbone: nn.Module) -> tuple[tuple[int, int], ...]:
    """Which weights a backbone has, and how often each was changed."""
    weights = backbone.parameters()
    return tuple((weight.data_ptr(), 0 if weight.is_inference() else weight._version) for weight in weights)


@torch.no_grad()
def _refreshed(old: nn.Module | None, backbone: nn.Module, precision: str) -> nn.Module:
    if precision == "int8":
        return _in_int8(copy.deepcopy(backbone)).eval()
    weights = list(backbone.parameters())
    if old is None or next(old.parameters()).device != weights[0].device:
        return _InBfloat16(copy.deepcopy(backbone)).eval()
    # during training: the copy's memory again, a hundredth of the time
    with torch.inference_mode():
        for lowered, weight in zip(old.parameters(), weights, strict=True):
            lowered.copy_(weight.to(torch.bfloat16))
    return old


class _InBfloat16(nn.Module):
    """A backbone with weights of bfloat16's digits whose states come out in float32."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        # not the buffers: rotary frequencies need their digits
        for weight in backbone.parameters():
            kept_in = torch.bfloat16 if has_bfloat16_products(weight.device) else torch.float32
            weight.data = weight.data.to(torch.bfloat16).to(kept_in)
        self.backbone = backbone

    def forward(self, **inputs: Any) -> SimpleNamespace:
        states = self.backbone(**inputs)
        layers = getattr(states, "hidden_states", None)
        return SimpleNamespace(
            last_hidden_state=states.last_hidden_state.float(),
            hidden_states=None if layers is None else [layer.float() for layer in layers],
        )


def lower_classifier(model: nn.Module, kind: torch.dtype) -> nn.Module:
    """A copy of a cross-encoder with weights of this kind, except of the layer that scores.

    In bf16 a score of −11 has steps of 1/16: many passages would be equal. It is faster than autocast, which normalises
    layers in float32 and so moves twice the bytes.
    """
    lowered = copy.deepcopy(model).requires_grad_(False)
    scoring = [module for module in lowered.modules() if type(module) is nn.Linear and module.out_features == 1]
    precise = {id(weight) for module in scoring for weight in module.parameters()}
    for weight in lowered.parameters():  # not the buffers: rotary frequencies need their digits
        if id(weight) not in precise:
            weight.data = weight.data.to(kind)
    for module in scoring:
        module.register_forward_pre_hook(lambda _, given: (given[0].float(), *given[1:]))
    return lowered.eval()


def has_bfloat16_products(device: torch.device) -> bool:
    """Whether products of bfloat16 matrices are computed by instructions of the device; else torch takes its time."""
    if device.type != "cpu":
        return True
    try:
        known = torch.cpu.get_capabilities()
        if known.get("architecture") == "x86_64":  # with AVX512 alone oneDNN emulates them, and says that it has them
            return any(known.get(name) for name in ("avx512_bf16", "amx_bf16", "avx_ne_convert"))
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    except AttributeError:  # a torch that does not say
        return True


class _Int8Linear(nn.Module):
    """A linear layer with int8 weights, one scale a row, and inputs quantised as they come, one scale a batch."""

    weight = None  # some models ask for its type

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        scales = (weight.abs().amax(dim=1) / 127).clamp(min=1e-12).double()
        with warnings.catch_warnings():  # that torch will drop these: int8 is then refused, see below
            warnings.simplefilter("ignore")
            rows = torch.quantize_per_channel(weight, scales, torch.zeros(len(scales)).long(), 0, torch.qint8)
        bias = None if linear.bias is None else linear.bias.detach().float()
        self.packed = torch.ops.quantized.linear_prepack(rows, bias)
        # without the instructions for it, these engines' sums of two 8-bit products overflow: 7 bits then
        self.seven_bits = torch.backends.quantized.engine in ("x86", "fbgemm") and not _has_vnni()

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = torch.ops.quantized.linear_dynamic(inputs, self.packed, reduce_range=self.seven_bits)
        return outputs


def _in_int8(backbone: nn.Module) -> nn.Module:
    before = torch.backends.quantized.engine
    try:
        torch.backends.quantized.engine = _int8_engine()
        _replace_linears(backbone)
    except (AttributeError, RuntimeError) as error:
        raise SettingError(
            f"precision: int8 is not to be had with torch {torch.__version__} on this processor ({error}); "
            "use float32, or `nearer export onnx MODEL --out DIR --int8` and the model in DIR."
        ) from None
    finally:
        torch.backends.quantized.engine = before
    return backbone


def _int8_engine() -> str:
    """The fastest engine that is exact on this processor.

    A torch built for arm64 lists x86 and fbgemm as well, and even has x86 for its default: both fail there.
    """
    there = torch.backends.quantized.supported_engines
    if platform.machine().lower() in ("x86_64", "amd64"):
        order = ["onednn", "x86", "fbgemm"] if _has_vnni() else ["x86", "fbgemm", "onednn"]
    else:
        order = ["qnnpack", "onednn"]
    for engine in order:
        if engine in there:
            return engine
    raise RuntimeError("no int8 engine for it")


def _replace_linears(module: nn.Module) -> None:
    for name, child in module.named_children():
        if type(child) is nn.Linear:
            setattr(module, name, _Int8Linear(child))
        else:
            _replace_linears(child)


def _has_vnni() -> bool:
    return bool(torch.cpu.get_capabilities().get("avx512_vnni", False))
