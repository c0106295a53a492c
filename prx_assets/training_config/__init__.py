"""Stage: one configuration for a trainer."""
