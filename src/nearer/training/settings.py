"""What every recipe can set, whatever its method."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from nearer.encoder.pooling import check_pooling
from nearer.encoder.template import named_template
from nearer.evaluation.held_out_task import NAME as HELD_OUT
from nearer.methods import METHODS
from nearer.text.tokenise import normalisation
from nearer.units import LARGEST_SEED

# Larger sizes are a slip of the finger
MOST = 1_000_000


class TrainingSettings(BaseModel):
    """The loop's settings. Defaults are SimCSE's where the papers agree."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    method: str = Field(description=f"how to learn: {', '.join(METHODS)}, or one of another package")
    model: str = Field(min_length=1, description="the checkpoint to start from: a folder, a bundled name or a hub name")
    pooling: str | None = Field(
        description="how a model makes one vector of its tokens' vectors; null keeps what the model says"
    )
    template: str | None = Field(
        None, description="text around each sentence with {sentence} in it, or a name; null keeps what the model says"
    )
    text_normalisation: str | None = Field(
        None, description="what is done to a text first: none, lowercase or full_stop; null keeps what the model says"
    )
    head: bool = Field(description="train a new layer (Linear + tanh) after the pooling")
    pooler_as_head: bool = Field(
        False, description="start from the checkpoint's own pooling layer (published supervised SimCSE models have one)"
    )
    data: Literal["sentences", "pairs", "labelled", "triplets", "debiased", "lists", "scored"] = Field(
        "sentences",
        description="what a record of the corpus is; labelled: a pair and its class; scored: a query with passages and "
        "their scores",
    )
    list_length: int | None = Field(
        None,
        ge=2,
        le=MOST,
        description="length of ranking lists: longer lists are cut, shorter ones dropped; null: all have one length",
    )
    duplicates: Literal["keep", "drop"] = Field("keep", description="what to do with records that come again")
    max_length: int | Literal["auto"] = Field(
        32,
        union_mode="left_to_right",
        description="training texts are cut after so many tokens; auto: long enough for 95 % of them, if the model can",
    )
    batch_size: int = Field(64, ge=1, le=MOST, description="records in a batch; 1 is for ranking lists only")
    epochs: int = Field(1, ge=1, le=MOST, description="how often training goes through the whole corpus")
    max_steps: int | None = Field(
        None, ge=1, le=1000 * MOST, description="end after so many steps; the learning rate reaches 0 there too"
    )
    learning_rate: float = Field(3e-5, gt=0, le=1, description="size of a step; it falls to 0 towards the end")
    warmup: float = Field(
        0.0, ge=0, lt=1, description="share of the steps, at the start, in which the learning rate rises"
    )
    weight_decay: float = Field(0.0, ge=0, le=1, description="how strongly AdamW pulls weights towards 0")
    clip: float = Field(1.0, ge=1e-6, le=1e6, description="the gradient is scaled down to this norm if it is larger")
    accumulation: int = Field(
        1, ge=1, le=MOST, description="batches in one step; the negatives of a batch are its own records only"
    )
    dropout: float | None = Field(
        None, ge=0, lt=1, description="replaces the checkpoint's dropout rates; null keeps them"
    )
    allow_pickle: bool = Field(False, description="read a checkpoint's pickled weights (.bin); nothing in them is run")
    keep_partial: bool = Field(True, description="use the last, smaller batch of an epoch")
    group_by_length: int = Field(
        0, ge=0, le=MOST, description="sort records by length within windows of so many batches; 0: do not sort"
    )
    precision: Literal["auto", "float32", "bf16"] = Field(
        "auto", description="numbers to compute with; auto: bf16 on a GPU, float32 elsewhere"
    )
    compile: bool = Field(True, description="on a GPU, compile the blocks and replay each step as a CUDA graph")
    piece: int | None = Field(
        None,
        ge=1,
        le=MOST,
        description="gradient caching: how many sentences are computed at a time; for batches larger than memory",
    )
    select_on: list[str] = Field(
        default_factory=lambda: [HELD_OUT],
        description="dev tasks; the best step is kept. held-out: one made of records that are kept out of training",
    )
    held_out: int | None = Field(
        None,
        ge=2,
        le=MOST,
        description="how many records select_on=held-out keeps out of training; null: a tenth, at most 500",
    )
    watch_on: list[str] = Field(
        default_factory=list, description="tasks that are scored beside the dev tasks, and choose nothing"
    )
    evaluate_every: int = Field(125, ge=1, le=1000 * MOST, description="steps between two evaluations on select_on")
    checkpoint_every: int | None = Field(
        None,
        ge=1,
        le=1000 * MOST,
        description="steps between two checkpoints; null: at evaluations, for at most 5 % of the time",
    )
    test_on: list[str] = Field(
        default_factory=lambda: ["sts"], description="tasks on which the finished model is scored"
    )
    tensorboard: bool = Field(False, description="write a log for TensorBoard into the run folder")
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="decides all that is random in the run")

    @field_validator("pooling")
    @classmethod
    def _known_pooling(cls, pooling: str | None) -> str | None:
        return None if pooling is None else check_pooling(pooling)

    @field_validator("text_normalisation")
    @classmethod
    def _known_normalisation(cls, name: str | None) -> str | None:
        if name is not None:
            normalisation(name)
        return name

    @field_validator("template")
    @classmethod
    def _known_template(cls, template: str | None) -> str | None:
        return None if template is None else named_template(template)

    @field_validator("max_length", mode="after")
    @classmethod
    def _room_for_a_sentence(cls, length: int | str) -> int | str:
        if isinstance(length, int) and not 3 <= length <= MOST:
            raise ValueError(f"must be from 3 to {MOST:,}, or 'auto'")
        return length

    @field_validator("batch_size")
    @classmethod
    def _something_to_compare(cls, batch_size: int, info: ValidationInfo) -> int:
        if batch_size < 2 and info.data.get("data") not in ("lists", "scored"):
            raise ValueError("leaves no in-batch negatives, 2 at least; a ranking list alone will do (data=lists)")
        return batch_size

    @field_validator("list_length")
    @classmethod
    def _of_lists(cls, length: int | None, info: ValidationInfo) -> int | None:
        if length is not None and info.data.get("data") != "lists":
            raise ValueError("is for ranking lists alone (data=lists)")
        return length

    @field_validator("select_on", "watch_on", "test_on", mode="before")
    @classmethod
    def _one_or_several(cls, tasks: object) -> object:
        return [task.strip() for task in tasks.split(",") if task.strip()] if isinstance(tasks, str) else tasks

    @field_validator("select_on", "watch_on", "test_on")
    @classmethod
    def _each_once(cls, tasks: list[str]) -> list[str]:
        for task in tasks:
            if not task.strip() or tasks.count(task) > 1:
                raise ValueError(f"{task!r} is given twice" if task.strip() else "a task without a name")
        return tasks

    @property
    def longest(self) -> int:
        """`max_length` as a number: a run has found one before it takes its first step."""
        assert isinstance(self.max_length, int)
        return self.max_length

    @model_validator(mode="after")
    def _one_head(self) -> Self:
        if self.pooler_as_head and self.head:
            raise ValueError("pooler_as_head and head are two heads: set head=false to start from the checkpoint's own")
        if self.pooler_as_head and self.pooling not in (None, "cls", "cls_before_head"):
            raise ValueError(
                f"pooler_as_head: the pooling layer reads [CLS], not {self.pooling}; set pooling=cls, or "
                "cls_before_head to leave it out at inference"
            )
        return self
