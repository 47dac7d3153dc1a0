"""Signs that a run goes wrong, each told once, with what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nearer.text.faults import Fault
from nearer.training.selection import DevScore

NEAR_ZERO = 0.02
FALLEN = 1.0  # points below the best dev score
CLUMPED = 0.7  # rise of uniformity above its lowest
DUPLICATE_SHARE = 0.02
CONTAINED_SHARE = 0.1


@dataclass
class Watch:
    """Looks at each evaluation; its memory is part of the checkpoint, so a resumed run says nothing twice."""

    told: list[str] = field(default_factory=list)
    best: float = -101.0
    lowest_uniformity: float = 0.0

    def text(self, report: dict[str, Any]) -> list[str]:
        """A look at the corpus' account before training starts."""
        return [*self._dropped(report), *self._duplicates(report), *self._contained(report)]

    def _dropped(self, report: dict[str, Any]) -> list[str]:
        counts = {Fault[name.upper()]: fault["count"] for name, fault in report["faults"].items()}
        lost = {fault: count for fault, count in counts.items() if fault.drops and fault is not Fault.HELD_OUT}
        if not lost:
            return []
        told = ", ".join(f"{count:,} {fault.label}" for fault, count in lost.items())
        message = f"{report['source']}: {sum(lost.values()):,} of {report['read']:,} records dropped ({told})."
        return self._tell("dropped", message)

    def _contained(self, report: dict[str, Any]) -> list[str]:
        faults = report.get("faults", {})
        contained, held_out = (faults.get(name, {}).get("count", 0) for name in ("contained", "held_out"))
        share = contained / max(1, report.get("kept", 0) + held_out)
        if share < CONTAINED_SHARE:
            return []
        return self._tell(
            "contained",
            f"in {share:.0%} of the pairs one side contains the other: they are matched by their words alone, and "
            "teach little. --strip-contained cuts it out.",
        )

    def _duplicates(self, report: dict[str, Any]) -> list[str]:
        duplicates = report.get("faults", {}).get("duplicate", {}).get("count", 0)
        share = duplicates / max(1, report.get("kept", 0))
        if share < DUPLICATE_SHARE:
            return []
        return self._tell(
            "duplicates",
            f"{share:.0%} of the corpus are duplicates: in a batch they are negatives of themselves. "
            "Set duplicates=drop to leave them out.",
        )

    def evaluation(self, loss: float, dev: DevScore) -> list[str]:
        falling = dev.score < self.best - FALLEN
        warnings: list[str] = []
        if dev.uniformity > self.lowest_uniformity + CLUMPED:
            warnings += self._tell(
                "collapse",
                f"vectors draw together (uniformity {self.lowest_uniformity:.2f} → {dev.uniformity:.2f}): training "
                "collapses. Lower learning_rate, keep dropout above 0, and do not fix its masks.",
            )
        if loss < NEAR_ZERO and falling:
            warnings += self._tell(
                "overtraining",
                f"the loss is near 0 ({loss:.3f}) while dev falls ({self.best:.2f} → {dev.score:.2f}): nothing is left "
                "to learn from these negatives. Fewer steps (max_steps), a lower learning_rate or larger batches help; "
                "the best step is kept in any case.",
            )
        self.best = max(self.best, dev.score)
        self.lowest_uniformity = min(self.lowest_uniformity, dev.uniformity)
        return warnings

    def _tell(self, name: str, message: str) -> list[str]:
        if name in self.told:
            return []
        self.told.append(name)
        return [message]
