"""The regression gate: does a change keep counts, law and speed? Levels L0 to L2 against a file or a revision, and comparison of runs."""
