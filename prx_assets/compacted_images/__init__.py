"""Stage: many small fragments become few large ones."""
