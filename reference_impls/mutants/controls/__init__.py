"""Exact controls: changes that leave the law alone and must pass. One file each."""
