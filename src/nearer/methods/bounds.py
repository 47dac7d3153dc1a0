"""What the numbers of a recipe may be: beyond these a loss is infinite, or all of one kind of sentence."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

LARGEST_WEIGHT = 1e6

# cosines are divided by it: at 1e-4 they differ by 2e4 at most, which float32 can hold
Temperature = Annotated[float, Field(ge=1e-4, le=1e4)]
Weight = Annotated[float, Field(ge=0, le=LARGEST_WEIGHT)]
