"""A run's folder: its configuration, metrics, checkpoints and model, read and written. Training stands on it."""
