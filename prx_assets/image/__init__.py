"""Pixels and their policy, shared by the stages."""
