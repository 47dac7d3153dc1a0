"""Speed, measured against the peers in the same process run: `nearer bench`."""
