"""Stage: which samples a trainer must not see, and why."""
