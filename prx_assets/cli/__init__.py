"""The `prx` command line."""
