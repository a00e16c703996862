"""What the study asks of an implementation of tokens; it is named in the suite file by a dotted string.

Shapes: n contexts (rows of a law), B buckets, M types. Buckets are whatever ``fit`` gives: nobody here looks inside.
"""

from __future__ import annotations

from typing import Any, Protocol

from tppsd_bench.measure.acceptance import ExactAcceptance
from tppsd_bench.protocols import FloatArray


class TokenLab(Protocol):
    """Token models by way of a continuous one: buckets, laws over them, and their distances."""

    def fit(self, gaps: FloatArray, n_buckets: int, strategy: Any, within: Any) -> Any:
        """Buckets for gaps like these; InputError where they allow no such buckets."""
        ...

    def pair(self, pair: Any, buckets: Any) -> Any:
        """The pair over tokens, ready to sample."""
        ...

    def law(self, law: Any, buckets: Any) -> Any:
        """A continuous law over tokens."""
        ...

    def acceptance(self, p: Any, q: Any) -> ExactAcceptance:
        """Of a draft q under p, both over the same tokens, by exact sums."""
        ...

    def errors(self, law: Any, buckets: Any) -> dict[str, FloatArray]:
        """Distances between a continuous law and itself over tokens, (n,) each: ``ks``, ``wasserstein``, ``wasserstein_log``,
        ``information`` (KL in nats, gap and type) and ``information_gap``; ``last_bucket`` and ``largest_bucket``, masses."""
        ...

    def errors_of_gaps(self, law: Any, buckets: Any) -> dict[str, FloatArray]:
        """The same of the gap alone."""
        ...

    def apart(self, p: Any, q: Any) -> dict[str, FloatArray]:
        """What verifying bucket and type apart would put out, by context: total variation from p's law (``apart``, ``redrawn``,
        ``redrawn_buckets``, ``redrawn_types``), acceptance (``apart_accepted``), and the mutual information of bucket and type in
        nats (``coupling_target``, ``coupling_draft``, ``coupling_apart``, ``coupling_redrawn``)."""
        ...

    def bucket_probs(self, law: Any) -> FloatArray:
        """(n, B) of a law over tokens."""
        ...

    def log_tokens(self, law: Any) -> FloatArray:
        """(n, B, M) log probabilities."""
        ...

    def emitted(self, buckets: Any, decoder: str) -> FloatArray:
        """(B,) the one gap that a decoder without a law inside buckets gives for each: its ``middles`` or its upper ``edges``."""
        ...

    def log_density_float32(self, law: Any, gap: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(log density, density) of the gaps (n, g) of a continuous law, computed in float32: in log space, and as it stands."""
        ...
