"""The bundled model, loaded and asked: whether text becomes the vectors that it should become on this machine."""

from __future__ import annotations

from collections.abc import Iterator

from nearer.doctor.finding import Finding, State
from nearer.extras import reinstall_command

NAME, POOLING = "wiki-mini", "mean"
QUERY = "Somebody has a meal."
NEAREST, OTHERS = "A man is eating lunch.", ("It rains.", "The train leaves at noon.")
# the first numbers of NEAREST's unit vector in float32; builds of torch differ in the sixth decimal
KNOWN = (-0.0732, 0.0584, 0.0508, 0.0378, 0.0153, -0.0600, -0.0098, 0.0129)
TOLERANCE = 1e-3
DAMAGED = f"the model's files are damaged; restore src/nearer/bundled in a checkout, or: {reinstall_command()}"


def bundled_model() -> Iterator[Finding]:
    """A known vector on the CPU, and a ranking on the device that commands would take."""
    import torch

    from nearer.encoder import Encoder

    encoder = Encoder.load(NAME, pooling=POOLING, device="cpu")
    vector = encoder.encode([NEAREST], normalize=True)[0]
    off = max(abs(float(found) - known) for found, known in zip(vector, KNOWN, strict=False))
    if not off <= TOLERANCE:  # also where it is no number
        yield Finding("bundled model", State.broken, f"{NAME}: its vectors are off by {off:.2g}", DAMAGED)
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    ranked = encoder.to(device).rank(QUERY, [OTHERS[0], NEAREST, OTHERS[1]])
    if ranked[0].sentence != NEAREST:
        mend = "use the CPU (--device cpu), and look at the GPU's driver" if device == "cuda" else DAMAGED
        yield Finding("bundled model", State.broken, f"{NAME} ranks wrongly on {device}", mend)
        return
    found = f"{NAME} gives its known vector; {QUERY!r} is nearest to {NEAREST!r} ({ranked[0].score:.2f}, {device})"
    yield Finding("bundled model", State.good, found)
