"""Requests to take images down, and every copy of them."""
