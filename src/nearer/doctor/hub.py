"""Whether the Hugging Face hub can be reached. Asked only where the user asks for it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from nearer.doctor.finding import Finding, State

ASKED_FOR = "sentence-transformers/all-MiniLM-L6-v2"
TIMEOUT_SECONDS = 10.0
MEND = "look at the network and HTTPS_PROXY; without the hub, put models into a folder named by NEARER_MODELS"


def reachable() -> Iterator[Finding]:
    """Asks about one model. The hub is not needed where models and data lie on the disk, so it is never an error."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import OfflineModeIsEnabled

    endpoint = os.environ.get("HF_ENDPOINT")
    started = time.perf_counter()
    try:
        HfApi(endpoint=endpoint).model_info(ASKED_FOR, timeout=TIMEOUT_SECONDS)
    except OfflineModeIsEnabled:
        yield Finding("hub", State.doubtful, "HF_HUB_OFFLINE keeps it from being asked", "unset HF_HUB_OFFLINE")
        return
    except Exception as error:  # the network's and the client's errors alike
        yield Finding("hub", State.doubtful, f"{endpoint or 'huggingface.co'}: {type(error).__name__}", MEND)
        return
    seconds = time.perf_counter() - started
    yield Finding("hub", State.good, f"{endpoint or 'huggingface.co'} answers in {1000 * seconds:.0f} ms")
