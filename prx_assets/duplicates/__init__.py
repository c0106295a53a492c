"""Stage: groups of equal pictures over all sources."""
