"""Faults: one file each, named as the fault."""
