"""Stage: one style of caption for every eligible image."""
