"""The faults of the published sampler together: each is hidden by what its users compared with, none by the model's own likelihood."""

from __future__ import annotations

from dataclasses import replace

from reference_impls.mutants.base import Mutant, Witness, remade
from reference_impls.mutants.faults.all_or_nothing import AllOrNothing
from reference_impls.mutants.faults.nan_accept import NanAccepts
from reference_impls.mutants.faults.offby1_shared import one_less, one_less_target_only
from reference_impls.mutants.faults.residual_cap import CappedResidual
from reference_impls.mutants.faults.type_unverified import TypesUnverified
from reference_impls.samplers.speculative import Speculative


class GapsInSinglePrecision(TypesUnverified, NanAccepts):
    """Types are not verified, and gaps by a ratio of float32 densities."""


def release(sampler: Speculative, _: float = 1.0) -> Speculative:
    return one_less(replace(remade(AllOrNothing, sampler), rule=GapsInSinglePrecision(), residual=CappedResidual()))


MUTANT = Mutant(
    name="public_release",
    broken="Rejection loses its position, types go unverified, residuals are capped, 0/0 accepts, and every law is one event behind.",
    precedent="published code of speculative sampling for point processes, its faults together",
    change=release,
    shared=one_less_target_only,
    faults=("all_or_nothing", "type_unverified", "residual_cap", "nan_accept", "offby1_shared"),
    killers=(
        "density_agreement",
        "acceptance_identity",
        "support.gap",
        "accounting.residual_give_ups",
        "draft_direction",
        "score",
        "strata",
    ),
    witness=Witness("toy-slow-clock", draft="shipped"),
)
