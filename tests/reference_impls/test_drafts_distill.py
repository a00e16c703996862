"""The divergences of distillation: against closed forms and an independent quadrature, their gradients, and what they teach."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from reference_impls.drafts.files import network_of
from reference_impls.heads.network import MixtureHead
from reference_impls.network import NeuralModel
from reference_impls.tokens.fitting import fit_buckets
from reference_impls.tokens.head import TokenHead
from reference_impls.training.distill import Distillation, Grid, divergence, gap_log_density, type_log_probs
from reference_impls.training.fit import FitPlan, Likelihood, fit
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.measure.acceptance import exact_acceptance
from tppsd_bench.streams import StreamKey

GRID = Grid.between(-12.0, 12.0, 512)
DIRECTIONS = ("target_draft", "draft_target", "acceptance")


def one_bump(mean: float, sd: float, log_mean: float = 0.0, log_std: float = 1.0) -> tuple[MixtureHead, torch.Tensor]:
    """A head and the raw row of ln gap ~ Normal(mean, sd), under any standardisation."""
    head = MixtureHead(2, 1, 1)
    head.log_mean.fill_(log_mean)
    head.log_std.fill_(log_std)
    return head, torch.tensor([[(mean - log_mean) / log_std, math.log(sd / log_std), 0.7]])


def several(n: int, n_types: int, given_gap: bool, seed: int) -> tuple[MixtureHead, torch.Tensor]:
    torch.manual_seed(seed)
    head = MixtureHead(5, n_types, 3, types_given_gap=given_gap, hidden=4)
    with torch.no_grad():
        head.raw.weight.copy_(0.4 * torch.randn_like(head.raw.weight))
        head.raw.weight[3:6] *= 0.3  # scales that the grid resolves and holds
    head.log_std.fill_(1.2)
    return head, head(torch.randn(n, 5)).detach()


# -- values -----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_one_log_normal_against_another_has_its_closed_form(direction):
    """KL of two normals; 1 - acceptance = TV from the crossings of the two densities. Standardisations differ on purpose."""
    (m, s), (n, t) = (0.4, 0.8), (-0.3, 1.1)
    p, q = one_bump(m, s, log_mean=0.5, log_std=1.7), one_bump(n, t)

    def kl(m: float, s: float, n: float, t: float) -> float:
        return math.log(t / s) + (s * s + (m - n) ** 2) / (2 * t * t) - 0.5

    a, b, c = 1 / t**2 - 1 / s**2, 2 * (m / s**2 - n / t**2), n**2 / t**2 - m**2 / s**2 + 2 * math.log(t / s)
    low, high = sorted(np.roots([a, b, c]).real)
    tv = abs((norm.cdf(high, m, s) - norm.cdf(low, m, s)) - (norm.cdf(high, n, t) - norm.cdf(low, n, t)))
    want = {"target_draft": kl(m, s, n, t), "draft_target": kl(n, t, m, s), "acceptance": tv}[direction]
    got = float(divergence(p, q, GRID, direction))
    assert got == pytest.approx(want, rel=2e-3 if direction == "acceptance" else 1e-5)
    assert float(divergence(p, p, GRID, direction)) == pytest.approx(0.0, abs=2e-6)


@pytest.mark.parametrize("given_gap", [False, True])
def test_the_rejected_share_is_that_of_the_exact_quadrature(given_gap):
    """Three types: against ``measure.acceptance``, which integrates CDFs in float64."""
    p, q = several(20, 3, given_gap, 1), several(20, 3, given_gap, 2)
    laws = [head.eval().law(raw.numpy()) for head, raw in (p, q)]
    with torch.inference_mode():
        got = divergence(p, q, GRID, "acceptance").numpy()
    np.testing.assert_allclose(got, 1.0 - exact_acceptance(*laws).two_step, atol=5e-4)
    assert got.min() > 0.02


@pytest.mark.parametrize("given_gap", [False, True])
def test_densities_on_the_grid_are_those_of_the_float64_law(given_gap):
    head, raw = several(6, 3, given_gap, 4)
    law, gaps = head.eval().law(raw.numpy()), np.exp(GRID.x.numpy())
    wide = np.broadcast_to(gaps, (6, len(gaps)))
    with torch.inference_mode():
        np.testing.assert_allclose(gap_log_density(head, raw, GRID), law.log_prob(wide) + np.log(gaps), rtol=2e-5, atol=2e-4)
        types = np.broadcast_to(type_log_probs(head, raw, GRID).numpy(), (6, len(gaps), 3))
    np.testing.assert_allclose(types, law.type_log_probs(wide), atol=1e-5)


def test_kl_of_types_adds_by_the_chain_rule():
    """Same gap laws: KL = KL of the types alone, for they do not depend on the gap."""
    head, raw = several(8, 4, False, 5)
    other = raw.clone()
    other[:, 9:] += torch.randn(8, 4)
    p, q = torch.softmax(raw[:, 9:], -1), torch.softmax(other[:, 9:], -1)
    with torch.inference_mode():
        got = divergence((head, raw), (head, other), GRID, "target_draft")
        np.testing.assert_allclose(got, (p * (p / q).log()).sum(-1), rtol=1e-4)


@pytest.mark.parametrize("joint", [False, True])
def test_over_tokens_the_divergences_are_exact_sums(joint):
    """Against the float64 tables of the laws, 7 buckets x 3 types."""
    rng = StreamKey(cell="token divergence").generator()
    buckets = fit_buckets(np.exp(rng.normal(size=400)), 7, "quantile", "uniform", "exponential").to_json()
    torch.manual_seed(0)
    laws, sides = [], []
    for _ in range(2):
        head = TokenHead(5, 3, buckets, joint, hidden=4).eval()
        raw = head(torch.randn(6, 5)).detach() * 10.0
        sides.append((head, raw))
        laws.append(head.law(raw.numpy()).log_token_probs())
    p, q = laws
    p_bucket, q_bucket = (np.exp(law).sum(axis=2) for law in laws)
    p_type, q_type = np.exp(p) / p_bucket[..., None], np.exp(q) / q_bucket[..., None]
    accepted = (np.minimum(p_bucket, q_bucket) * np.minimum(p_type, q_type).sum(axis=2)).sum(axis=1)
    want = {
        "target_draft": (np.exp(p) * (p - q)).sum(axis=(1, 2)),
        "draft_target": (np.exp(q) * (q - p)).sum(axis=(1, 2)),
        "acceptance": 1.0 - accepted,
    }
    with torch.inference_mode():
        for direction in DIRECTIONS:
            np.testing.assert_allclose(divergence(*sides, GRID, direction), want[direction], rtol=1e-4, atol=1e-6)


def test_a_draft_gains_nothing_off_the_grid():
    """All of q beyond the grid: a plain sum of q log(q / p) would be 0 there, the best of all."""
    grid = Grid.between(-3.0, 3.0, 64)
    for direction in DIRECTIONS:
        assert float(divergence(one_bump(0.0, 0.7), one_bump(40.0, 0.5), grid, direction)) > 0.9


# -- gradients --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("given_gap", [False, True])
def test_gradients_are_those_of_finite_differences(direction, given_gap):
    """Of every raw parameter, in float64; directional derivatives along random directions."""
    p, (head, raw) = several(5, 3, given_gap, 6), several(5, 3, given_gap, 7)
    head, raw = head.double(), raw.double()
    p = p[0].double(), p[1].double()
    raw.requires_grad_(True)
    divergence(p, (head, raw), GRID, direction).sum().backward()
    assert raw.grad is not None
    assert torch.isfinite(raw.grad).all()
    assert (raw.grad.abs().sum(dim=0) > 0).all(), "a parameter that does not matter"
    for seed in range(3):
        torch.manual_seed(seed)
        along, h = torch.randn_like(raw), 1e-4
        with torch.no_grad():
            up, down = (divergence(p, (head, raw + s * h * along), GRID, direction).sum() for s in (1, -1))
        assert float((raw.grad * along).sum()) == pytest.approx(float((up - down) / (2 * h)), rel=5e-3, abs=1e-4)


# -- the objective ----------------------------------------------------------------------------------------------------------
def data(n: int = 24, length: int = 20, name: str = "distill") -> EventBatch:
    rng = StreamKey(cell=name).generator()
    gaps = [np.exp(0.6 * rng.normal(size=length)) for _ in range(n)]
    return EventBatch.from_gaps(gaps, [rng.integers(0, 2, length) for _ in range(n)], n_types=2)


def teacher() -> NeuralModel:
    torch.manual_seed(2)
    model = NeuralModel(
        {
            "encoder": "sahp",
            "n_types": 2,
            "encoder_args": {"n_layers": 2, "n_heads": 2, "d": 16},
            "head_args": {"n_components": 3},
        }
    )
    with torch.no_grad():
        model.head.raw.weight *= 3.0
    return model.eval()


def student(seed: int = 1) -> NeuralModel:
    torch.manual_seed(seed)
    return network_of({"encoder": "gru", "n_types": 2, "encoder_args": {"d": 8}, "head_args": {"n_components": 3}})


def objective(weight: float, direction="target_draft", batch: EventBatch | None = None) -> Distillation:
    batch = batch or data()
    return Distillation(teacher(), weight, direction, Grid.over(batch.gaps, 64), lambda _epoch: batch, lambda _epoch: 0)


def test_weight_0_is_maximum_likelihood_and_between_them_the_loss_is_linear():
    batch, model, rows = data(), student().eval(), np.array([3, 4, 7])
    values = []
    for weight in (0.0, 0.25, 1.0):
        torch.manual_seed(0)  # the histories compared are drawn by chance
        values.append(objective(weight).loss(model, batch.select(rows), 0, rows).item())
    assert values[0] == pytest.approx(Likelihood().loss(model, batch.select(rows), 0, rows).item(), rel=1e-5)
    assert values[1] == pytest.approx(0.75 * values[0] + 0.25 * values[2], rel=1e-5)
    assert objective(0.0).held_out(model, batch) == pytest.approx(Likelihood().held_out(model, batch), rel=1e-5)


def test_the_target_is_asked_for_the_right_histories():
    """A draft that is the target diverges by 0 from itself on any rows of ragged data; one history off and it would not."""
    rng = StreamKey(cell="ragged").generator()
    lengths = [5, 9, 0, 3, 12, 7]
    batch = EventBatch.from_gaps(
        [np.exp(rng.normal(size=n)) for n in lengths], [rng.integers(0, 2, n) for n in lengths], n_types=2
    )
    distill = objective(1.0, batch=batch)
    rows = np.array([4, 1, 3])
    assert distill.loss(distill.target, batch.select(rows), 0, rows).item() == pytest.approx(0.0, abs=1e-5)
    assert distill.loss(distill.target, batch.select(rows), 0, rows[::-1]).item() > 1e-3
    assert distill.held_out(distill.target, batch) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_short_training_lowers_the_divergence(direction):
    batch, model = data(), student()
    distill = objective(1.0, direction, batch)
    before = distill.held_out(model.eval(), batch)
    result = fit(model, distill.data, batch, FitPlan(15, 8, 2e-2, 4, validate_every=5), seed=1, objective=distill)
    after = distill.held_out(model, batch)
    assert [epoch for epoch, _, _ in result.history] == [5, 10, 15]
    assert after < 0.7 * before
    assert result.best_validation_nll == pytest.approx(after, rel=1e-4)


def test_wrong_settings_are_sentences():
    with pytest.raises(InputError, match=r"distill.weight = 1.5: expected a share between 0"):
        objective(1.5)
    with pytest.raises(InputError, match="expected one of target_draft, draft_target, acceptance"):
        objective(0.5, "backwards")
