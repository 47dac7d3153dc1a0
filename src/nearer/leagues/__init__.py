"""Methods side by side: the same text, steps, tuning and tests for each, and one table in which a difference counts."""
