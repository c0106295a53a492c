"""Stage: what a source holds, in numbers and plots."""
