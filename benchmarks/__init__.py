"""Speed, measured against the peers in the same process run: `nearer bench` from a checkout.

Beside the package and not in it: users of a wheel rarely measure. It stands on any part of the package; of the package,
`cli/bench.py` alone imports it.
"""
