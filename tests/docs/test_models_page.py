"""The tables of docs/models.md say what the cards say, and what the two laws of each pair say."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from reference_impls.pairs import CHECKPOINTS, card, load_pair
from tppsd_bench.measure.acceptance import exact_acceptance
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.streams import StreamKey

PAGE = Path(__file__).resolve().parents[2] / "docs" / "models.md"
PAIRS = sorted(p.parent.name for p in CHECKPOINTS.glob("*/card.json"))


def rows(name: str) -> list[list[str]]:
    """The cells of a pair's rows, first likelihoods, then acceptance."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {name} |")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def numbers(text: str) -> list[float]:
    return [float(x) for x in re.findall(r"-?\d+\.?\d*", text.replace("−", "-"))]


@pytest.mark.parametrize("name", PAIRS)
def test_likelihoods_are_the_cards(name: str) -> None:
    about = card(name)
    nll, recipe = about["nll"], about["recipe"]
    likelihoods, _ = rows(name)
    _, networks, n_types, target, draft, ahead, renewal, true, share = likelihoods
    args = [recipe[role]["encoder_args"] for role in ("target", "draft")]
    assert numbers(networks) == [a[key] for a in args for key in ("n_layers", "n_heads")]
    assert int(n_types) == about["n_types"]
    for shown, key in ((target, "target"), (draft, "draft"), (renewal, "renewal"), (true, "true")):
        assert numbers(shown) == ([round(nll[key]["value"], 4)] if key in nll else [])
    assert numbers(ahead) == [round(nll["draft_minus_target"][key], 4) for key in ("value", "low", "high")]
    assert numbers(share) == ([round(100 * nll["lead_share"])] if "true" in nll else [])


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_is_called_pointless_where_its_card_says_so(name: str) -> None:
    section = PAGE.read_text(encoding="utf-8").partition("### Speculation pointless")[2].partition("\n## ")[0]
    assert (name in section) == card(name)["speculation_pointless"]


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_acceptance_is_that_of_the_two_laws(name: str) -> None:
    """On other histories than the page's: with 1,024 of them a mean has a standard error of .004 at most, and .02 is five."""
    pair, key = load_pair(name), StreamKey(suite="docs", cell=f"models {name}")
    length = int(card(name)["train_median_events"])
    request = SampleRequest(max(16, 2048 // length), Stop(n_events=length), key, want_trace=False)
    histories = pair.sampler("target_only", batch_size=64).sample(request).events
    at = np.sort(key.replace(purpose="quadrature").generator().permutation(histories.n_events)[:1024])
    p = pair.target.conditionals(histories).take(at)
    shown = [x for cell in rows(name)[1][1:] for x in numbers(cell)]
    for draft, (accepted, tv) in {"shipped": shown[:2], "stress": shown[2:]}.items():
        found = exact_acceptance(p, pair.drafts[draft].conditionals(histories).take(at), n_levels=128)
        assert found.two_step.mean() == pytest.approx(accepted / 100, abs=0.02)
        assert 1 - found.gap.mean() == pytest.approx(tv, abs=0.02)
