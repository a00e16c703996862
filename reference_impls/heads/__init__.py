"""Heads: context -> law of the next (gap, type). The laws are numpy; only ``network`` needs torch."""
