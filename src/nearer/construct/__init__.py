"""Building training data from raw sentences: debiased samples (DebCSE) and ranking lists by directional decoding."""
