"""Training: a recipe, or a user's own sequences, to a pair folder of checkpoints and their card."""
