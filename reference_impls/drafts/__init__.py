"""The draft zoo: every kind of cheap model that can propose for a target. Exactness never depends on which."""
