"""Stage: full-text and vector indexes."""
