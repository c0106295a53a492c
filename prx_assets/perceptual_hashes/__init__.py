"""Stage: a 64-bit hash and a colour signature per image."""
