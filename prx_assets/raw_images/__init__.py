"""Stage: source files become rows of a Lance table."""
