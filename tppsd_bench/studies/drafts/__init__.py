"""Drafts: what kinds of draft are worth on each data set: size, fit, acceptance, cost and speed, over K and over the length of history."""
