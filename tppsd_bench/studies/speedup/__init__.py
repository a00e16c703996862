"""The study ``speedup``: speed over K, batch and length, against a throughput law that was frozen before anything was timed."""
