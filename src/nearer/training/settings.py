"""What every recipe can set, whatever its method."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from nearer.encoder.pooling import check_pooling


class TrainingSettings(BaseModel):
    """The loop's settings. Defaults are SimCSE's where the papers agree."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str
    model: str = Field(description="the checkpoint to start from: a folder, a bundled name or a hub name")
    pooling: str | None = Field(description="null keeps that of a model which has one")
    head: bool = Field(description="put a fresh Linear + tanh behind the pooling")
    data: Literal["sentences", "pairs", "triplets", "debiased", "lists"] = "sentences"
    list_length: int | None = Field(
        None, ge=2, description="of ranking lists: longer ones are cut, shorter ones dropped; default: all are alike"
    )
    duplicates: Literal["keep", "drop"] = "keep"
    max_length: int = Field(32, ge=3, description="tokens at which training sentences are cut")
    batch_size: int = Field(64, ge=1, description="records a batch; 1 for ranking lists only")
    epochs: int = Field(1, ge=1)
    max_steps: int | None = Field(None, ge=1, description="end after so many steps; the schedule ends there too")
    learning_rate: float = Field(3e-5, gt=0)
    warmup: float = Field(0.0, ge=0, lt=1, description="share of the steps in which the learning rate rises")
    weight_decay: float = Field(0.0, ge=0)
    clip: float = Field(1.0, gt=0, description="largest norm of the gradient")
    accumulation: int = Field(1, ge=1, description="batches a step; each has its own negatives only")
    dropout: float | None = Field(None, ge=0, lt=1, description="replaces the checkpoint's dropout rates")
    allow_pickle: bool = Field(False, description="read a checkpoint's pickled weights (.bin); nothing in them is run")
    keep_partial: bool = Field(True, description="use the last, smaller batch of an epoch")
    group_by_length: int = Field(0, ge=0, description="sort by length within windows of so many batches")
    precision: Literal["auto", "float32", "bf16"] = "auto"
    compile: bool = Field(True, description="on a GPU, compile the blocks and replay each step as a CUDA graph")
    piece: int | None = Field(None, ge=1, description="gradient caching: sentences that pass the encoder at a time")
    select_on: list[str] = Field(default_factory=lambda: ["stsb-dev"], description="dev tasks; the best step is kept")
    evaluate_every: int = Field(125, ge=1)
    checkpoint_every: int | None = Field(
        None, ge=1, description="default: when dev is evaluated, within 5 % of the time"
    )
    test_on: list[str] = Field(default_factory=lambda: ["sts"], description="tasks of the finished model")
    tensorboard: bool = False
    seed: int = Field(0, ge=0)

    @field_validator("pooling")
    @classmethod
    def _known_pooling(cls, pooling: str | None) -> str | None:
        return None if pooling is None else check_pooling(pooling)

    @field_validator("batch_size")
    @classmethod
    def _something_to_compare(cls, batch_size: int, info: ValidationInfo) -> int:
        if batch_size < 2 and info.data.get("data") != "lists":
            raise ValueError("leaves no in-batch negatives, 2 at least; a ranking list alone will do (data=lists)")
        return batch_size

    @field_validator("list_length")
    @classmethod
    def _of_lists(cls, length: int | None, info: ValidationInfo) -> int | None:
        if length is not None and info.data.get("data") != "lists":
            raise ValueError("is for ranking lists alone (data=lists)")
        return length

    @field_validator("select_on", "test_on", mode="before")
    @classmethod
    def _one_or_several(cls, tasks: object) -> object:
        return [task.strip() for task in tasks.split(",") if task.strip()] if isinstance(tasks, str) else tasks
