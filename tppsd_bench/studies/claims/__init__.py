"""The study ``claims``: what others published about speculative sampling of events, held to what is measured here."""
