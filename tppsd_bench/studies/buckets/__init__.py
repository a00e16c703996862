"""Buckets: what cutting time into tokens costs, what it buys, and which of the advice about it holds."""
