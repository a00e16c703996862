"""Discretised time: buckets of gaps, laws over (bucket, type) tokens, and continuous models made into token models. ``head`` needs torch."""

from reference_impls.tokens.buckets import TimeBuckets
from reference_impls.tokens.discretise import Discretised, DiscretisedLaw
from reference_impls.tokens.fitting import fit_buckets
from reference_impls.tokens.law import FactorisedTokens, JointTokens, TokenLaw

__all__ = ["Discretised", "DiscretisedLaw", "FactorisedTokens", "JointTokens", "TimeBuckets", "TokenLaw", "fit_buckets"]
