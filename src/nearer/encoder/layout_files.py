"""The small files of a sentence-transformers folder, each with the fields that are read of it and their types."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated, TypeVar

from pydantic import AfterValidator, ConfigDict, Field

from nearer.errors import ModelError
from nearer.typed_files import FileFacts, read_json

Facts = TypeVar("Facts")

VECTOR = "sentence_embedding"
LONGEST_PATH = 255  # bytes of a name on the usual file systems
MOST_LAYERS = 10_000  # the deepest published models have hundreds


def _inside(path: str) -> str:
    """A folder of the model's own: a model that is downloaded says nothing of what lies beside it."""
    name = path.encode(errors="replace")
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts or "\x00" in path:
        raise ValueError("is not a folder within the model's")
    if name.decode() != path:
        raise ValueError("is not a name of a folder, since it holds half a character")
    if len(name) > LONGEST_PATH:
        raise ValueError(f"is longer than the {LONGEST_PATH} bytes that a folder's name may have")
    return path


Inside = Annotated[str, AfterValidator(_inside)]
Size = Annotated[int, Field(ge=1, strict=True)]


class ModuleFacts(FileFacts):
    type: str
    path: Inside


class TransformerFacts(FileFacts):
    max_seq_length: int | None = Field(default=None, ge=0)
    do_lower_case: bool | None = None


class ModelFacts(FileFacts):
    prompts: dict[str, str | None] | None = None
    default_prompt_name: str | None = None
    truncate_dim: Size | None = None
    similarity_fn_name: str | None = None


class PoolingFacts(FileFacts):
    model_config = ConfigDict(extra="allow")  # the older spelling has a field for each mode

    include_prompt: bool = True
    pooling_mode: str | list[str] | None = None


class LayerFacts(FileFacts):
    """Of a layer behind the pooling. Where it does not say what it reads and writes, it is the sentence's vector."""

    module_input_name: str | None = None
    module_output_name: str | None = None


class DenseFacts(LayerFacts):
    in_features: Size
    out_features: Size
    bias: bool = True
    activation_function: str = "Tanh"
    use_residual: bool | None = None


class NormFacts(LayerFacts):
    dimension: Size


class WeightedLayersFacts(FileFacts):
    layer_start: int = Field(ge=0, le=MOST_LAYERS)
    num_hidden_layers: int = Field(ge=0, le=MOST_LAYERS)


class RouterParameters(FileFacts):
    route_mappings: dict[str, str] | None = None
    default_route: str | None = None
    allow_empty_key: bool = True


class RouterFacts(FileFacts):
    types: dict[str, str]
    structure: dict[str, list[Inside]] = Field(min_length=1)
    parameters: RouterParameters = RouterParameters()


Layer = TypeVar("Layer", bound=LayerFacts)


def read_facts(path: Path, kind: type[Facts]) -> Facts:
    return read_json(path, kind, error=ModelError)


def read_layer(folder: Path, kind: type[Layer]) -> Layer:
    """What a layer says of itself, if it reads and writes the sentence's vector. Normalize may say nothing at all."""
    path = folder / "config.json"
    if kind is LayerFacts and not path.exists():
        return kind()
    facts = read_facts(path, kind)
    for name in (facts.module_input_name, facts.module_output_name):
        if (name or VECTOR) != VECTOR:
            raise ModelError(f"{folder}: a layer on {name} is not supported, on sentences' vectors only.")
    return facts
