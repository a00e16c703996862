"""Reference systems: models, samplers, training. Torch lives here; the samplers and toy models are numpy only."""
