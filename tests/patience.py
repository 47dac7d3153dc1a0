"""How long a test waits for what it started."""

from __future__ import annotations

# Seconds after which something hangs. Far more than anything takes, since tests run beside other work: what is slow is
# not wrong, and a wait ends here only where it would never end otherwise.
HANG = 600
PAGE = 120_000  # milliseconds for what a page shows: it takes a second, and tests of pages wait for many things
