"""The model that computes: like the one that is trained and saved, but in the step's precision and layout.

Weights that are trained stay float32. Matrices and norms are computed with in bfloat16 copies, which are renewed after
each step and whose gradients become those of the float32 weights. Tables of embeddings are read as they are: a step
touches few of their rows, and their gradients are sums over many tokens, which bfloat16 would lose.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from nearer.encoder import Encoder
from nearer.encoder.backbone import block_list
from nearer.encoder.packed_attention import ATTENTION, FusedSelfAttention, can_fuse, narrow_last_block


class WorkingCopy:
    """model: {"encoder", "method"} as they compute; with nothing to change, the very model that is trained."""

    def __init__(self, trained: nn.ModuleDict, *, dtype: torch.dtype, packed: bool, kernels: bool) -> None:
        self.copies: list[Copied] = []
        self.noise: Noise | None = None
        self.model = trained
        if dtype != torch.float32 or packed or kernels:
            self.model = _twin(trained)
        packs = [each for each in self.encoders if has_same_architecture(each, self.encoder)] if packed else []
        for encoder in packs:
            config: Any = encoder.backbone.config
            config._attn_implementation = ATTENTION
            narrow_last_block(encoder)
        if dtype != torch.float32 or kernels:
            replace_tables(self.model, dtype, kernels)
        if dtype != torch.float32 and packed:
            self._fuse_projections(packs, dtype)
        if dtype != torch.float32:
            self._copy_weights(dtype)
        if kernels:
            self.noise = Noise(self.model)
        set_training(self.model)

    @property
    def encoder(self) -> Encoder:
        encoder: Any = self.model["encoder"]
        return encoder  # type: ignore[no-any-return]

    @property
    def modules(self) -> nn.ModuleDict:
        modules: Any = self.model["method"]
        return modules  # type: ignore[no-any-return]

    @property
    def encoders(self) -> list[Encoder]:
        """All of them: the one that is trained, and those among the method's modules."""
        return _encoders(self.model)

    def by_name(self, name: str) -> nn.Module:
        """What passes go through."""
        return self.encoder if name == "encoder" else self.modules[name]

    def is_frozen(self, name: str) -> bool:
        return is_frozen(self.by_name(name))

    @property
    def words(self) -> Tensor:
        """The backbone's word embeddings, in the step's precision."""
        table: Any = self.encoder.backbone.get_input_embeddings()  # type: ignore[operator]
        weight: Tensor = table.weight
        return weight.to(table.dtype) if isinstance(table, Table) else weight

    @torch.no_grad()
    def renew(self) -> None:
        """Bring the copies up to date with the trained weights."""
        if self.copies:
            torch._foreach_copy_([copied.values for copied in self.copies], [copied.master for copied in self.copies])

    @torch.no_grad()
    def renew_frozen(self) -> None:
        """Bring the copies of weights that are not trained up to date: a method may change these itself."""
        frozen = [copied for copied in self.copies if not copied.master.requires_grad]
        if frozen:
            torch._foreach_copy_([copied.values for copied in frozen], [copied.master for copied in frozen])

    @torch.no_grad()
    def collect(self) -> None:
        """Add the copies' gradients to those of the trained weights, and forget them."""
        for copied in self.copies:
            gradient = copied.gradient
            if gradient is not None:
                master = copied.master
                master.grad = gradient.to(master.dtype) if master.grad is None else master.grad + gradient
        self.forget_gradients()

    def forget_gradients(self) -> None:
        for copied in self.copies:
            copied.own.grad = None

    def _copy_weights(self, dtype: torch.dtype) -> None:
        made: dict[int, nn.Parameter] = {}
        for module in self.model.modules():
            if isinstance(module, (Table, nn.Embedding, FusedSelfAttention)):
                continue
            for name, master in module._parameters.items():
                if master is None or not master.is_floating_point():
                    continue
                if id(master) not in made:  # tied weights stay tied
                    own = nn.Parameter(master.detach().to(dtype), requires_grad=master.requires_grad)
                    made[id(master)] = own
                    self.copies.append(Copied(master, own, slice(None)))
                module._parameters[name] = made[id(master)]

    def _fuse_projections(self, packs: Sequence[Encoder], dtype: torch.dtype) -> None:
        """Of encoders whose tokens are packed, where no other module has the same weights: a tied weight has one copy,
        so that it has one gradient."""
        holders = Counter(id(each) for module in self.model.modules() for each in module._parameters.values())
        for module in [module for encoder in packs for module in encoder.modules()]:
            for name, child in list(module.named_children()):
                if can_fuse(child) and all(holders[id(weight)] == 1 for weight in child.parameters()):
                    setattr(module, name, self._fused(child, dtype))

    def _fused(self, attention: nn.Module, dtype: torch.dtype) -> FusedSelfAttention:
        fused = FusedSelfAttention(attention)
        for kind in ("weight", "bias"):
            masters = [getattr(part, kind) for part in fused.parts]
            joined = torch.cat([master.detach().to(dtype) for master in masters])
            own = nn.Parameter(joined, requires_grad=masters[0].requires_grad)
            setattr(fused, kind, own)
            start = 0
            for master in masters:
                self.copies.append(Copied(master, own, slice(start, start + len(master))))
                start += len(master)
        return fused


@dataclass(frozen=True)
class Copied:
    """A trained weight and the rows of the copy that stand for it."""

    master: nn.Parameter
    own: nn.Parameter
    rows: slice

    @property
    def values(self) -> Tensor:
        return self.own.detach()[self.rows]

    @property
    def gradient(self) -> Tensor | None:
        return None if self.own.grad is None else self.own.grad[self.rows]


def is_frozen(module: nn.Module) -> bool:
    """Whether nothing of it is trained."""
    return not any(parameter.requires_grad for parameter in module.parameters())


def set_training(model: nn.ModuleDict) -> None:
    """Everything that is trained to training mode; what is frozen stays as it is at inference, without dropout."""
    model.train()
    modules: Any = model["method"]
    for module in modules.children():
        if is_frozen(module) and any(True for _ in module.parameters()):
            module.eval()


def has_same_architecture(module: nn.Module, encoder: Encoder) -> bool:
    """Whether a module is an encoder of the same architecture, or computes with one (its `network`), so that its rows
    can stand as the encoder's do."""
    network = module if isinstance(module, Encoder) else getattr(module, "network", None)
    if not isinstance(network, Encoder):
        return False
    own, other = cast(Any, network.backbone.config), cast(Any, encoder.backbone.config)
    return bool(own.model_type == other.model_type and _head_size(network) == _head_size(encoder))


def _head_size(encoder: Encoder) -> int:
    config: Any = encoder.backbone.config
    return encoder.width // int(getattr(config, "num_attention_heads", 1))


def layers_of(encoder: Encoder) -> list[nn.Module]:
    """The backbone's blocks."""
    return list(block_list(encoder.backbone) or [])


def _twin(trained: nn.ModuleDict) -> nn.ModuleDict:
    """A copy of the modules around the very same weights and buffers (the running means of a batch norm, say)."""
    shared: dict[int, Any] = {id(tensor): tensor for tensor in (*trained.parameters(), *trained.buffers())}
    for encoder in _encoders(trained):
        shared[id(encoder.tokenizer)] = encoder.tokenizer
    return copy.deepcopy(trained, shared)


def _encoders(model: nn.Module) -> list[Encoder]:
    return [module for module in model.modules() if isinstance(module, Encoder)]


class Noise:
    """Dropout as a function of seeds: one for each dropout of the model, drawn anew for each portion of a step.

    Every portion has seeds of its own: the gradient of an earlier one still reads those it was computed with.
    """

    def __init__(self, model: nn.Module) -> None:
        found = [
            (module, name, child.p)
            for module in model.modules()
            for name, child in module.named_children()
            if isinstance(child, nn.Dropout) and child.p > 0
        ]
        self.device = next(model.parameters()).device
        self.seeds: dict[int, Tensor] = {}  # by the number of the portion
        self.dropouts = [SeededDropout(rate, self._seeds_of(0, len(found))[:1]) for _, _, rate in found]
        for (module, name, _), dropout in zip(found, self.dropouts, strict=True):
            setattr(module, name, dropout)

    def draw(self, portion: int) -> None:
        """New seeds for this portion, which the dropouts have from now on."""
        self._seeds_of(portion, len(self.dropouts)).random_()
        self.use(portion)

    def use(self, portion: int) -> None:
        """The dropouts have the seeds that were drawn for this portion."""
        for number, dropout in enumerate(self.dropouts):
            dropout.seed = self.seeds[portion][number : number + 1]

    def _seeds_of(self, portion: int, count: int) -> Tensor:
        if portion not in self.seeds:
            self.seeds[portion] = torch.zeros(count, dtype=torch.int64, device=self.device)
        return self.seeds[portion]


class SeededDropout(nn.Module):
    """Dropout that keeps the same entries for the same seed. Attention reads its rate and seed, too."""

    seed: Tensor

    def __init__(self, rate: float, seed: Tensor) -> None:
        super().__init__()
        from nearer.encoder.kernels import drop

        self.p = rate
        self.rescale = drop(rate)[1]
        self.register_buffer("seed", seed, persistent=False)

    def forward(self, states: Tensor) -> Tensor:
        if not self.training:
            return states
        kept: Tensor = torch.ops.nearer.keep(states, self.seed, self.p)
        return torch.where(kept, states * self.rescale, 0.0)


# A table with so few entries is read often in each: its gradient is a matrix product
SMALL_TABLE = 1024


class Table(nn.Module):
    """A table of embeddings that stays float32 and gives rows in the step's precision."""

    def __init__(self, table: nn.Embedding, dtype: torch.dtype, kernels: bool) -> None:
        super().__init__()
        self.weight = table.weight
        self.padding = -1 if table.padding_idx is None else table.padding_idx
        self.dtype = dtype
        self.kernels = kernels

    def forward(self, ids: Tensor) -> Tensor:
        if self.kernels:
            rows: Tensor = _Read.apply(self.weight, ids, self.padding, self.dtype)  # type: ignore[no-untyped-call]
            return rows
        padding = None if self.padding < 0 else self.padding
        return embedding(ids, self.weight, padding_idx=padding).to(self.dtype)


class _Read(torch.autograd.Function):
    """Rows of a table whose gradient is summed in an order that never changes."""

    @staticmethod
    def forward(context: Any, weight: Tensor, ids: Tensor, padding: int, dtype: torch.dtype) -> Tensor:
        context.save_for_backward(ids)
        context.entries, context.padding = len(weight), padding
        return embedding(ids, weight).to(dtype)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        from nearer.encoder.kernels import table_gradient

        (ids,) = context.saved_tensors
        gradient = gradients[0].flatten(0, -2)
        flat = ids.expand(gradients[0].shape[:-1]).flatten()
        if context.entries > SMALL_TABLE:
            return table_gradient(gradient, flat, context.entries, context.padding), None, None, None
        entries = torch.arange(context.entries, device=flat.device)
        read = (flat[None, :] == entries[:, None]) & (entries != context.padding)[:, None]
        return (read.to(gradient.dtype) @ gradient).float(), None, None, None


def replace_tables(model: nn.Module, dtype: torch.dtype, kernels: bool) -> None:
    made: dict[int, Table] = {}
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Embedding):
                made.setdefault(id(child), Table(child, dtype, kernels))
                setattr(module, name, made[id(child)])
