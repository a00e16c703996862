"""Localisation: the sentence names the stratum that shows a fault and the one that is clear of it, and claims nothing else."""

from __future__ import annotations

from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.locate import locate


def stratum(name: str, key: str, value: str, p: float, effect: float, detectable: float = 0.05) -> Evidence:
    return Evidence(name, Axis.LAW, p_value=p, effect=effect, min_detectable=detectable, where={key: value})


def pooled(name: str, p: float) -> Evidence:
    return Evidence(name, Axis.LAW, p_value=p)


def test_nothing_to_say_of_an_exact_run():
    assert locate([stratum("strata.pit_time", "position", str(i), 0.3, 0.01) for i in range(4)]) == ""


def test_a_fault_at_the_bonus_position_is_named():
    evidence = [stratum("strata.pit_time", "position", str(i), 0.4, 0.01) for i in range(5)]
    evidence.append(stratum("strata.pit_time", "position", "5", 1e-12, 0.3))
    evidence += [stratum("strata.pit_time", "previous_type", str(i), 1e-6, 0.1) for i in range(2)]
    sentence = locate(evidence)
    assert "in the gaps at position in round 5" in sentence
    assert "not at position in round 0, 1, 2, 3 or 4" in sentence


def test_a_stratum_too_small_to_clear_itself_is_not_called_clear():
    evidence = [
        stratum("strata.pit_time", "event", "1", 0.7, 0.0, detectable=0.5),
        stratum("strata.pit_time", "event", "64+", 1e-50, 0.2),
    ]
    assert "not at" not in locate(evidence)


def test_types_off_and_gaps_fine():
    sentence = locate([pooled("pit_time.neyman", 0.5), pooled("pit_type.neyman", 1e-20)])
    assert sentence == "The types are off, the gaps by themselves are not."
