"""Pairs by name: what their cards say before anything is loaded."""

from __future__ import annotations

import pytest

from reference_impls.pairs import card, load_pair, names
from tppsd_bench.errors import InputError


@pytest.mark.parametrize("name", names())
def test_every_pair_says_how_long_its_sequences_are(name):
    about = card(name)
    assert about["name"] == name
    assert about["train_median_events"] > 0


def test_a_pair_of_the_release_has_a_card_without_its_files():
    about = card("release:sahp:multi:nowhere")
    assert (about["name"], about["n_types"]) == ("release-sahp-multi", 2)


@pytest.mark.parametrize("name", ["release:thp", "release:thp:hawke:folder"])
def test_a_misspelt_pair_of_the_release_is_refused(name):
    with pytest.raises(InputError, match="expected release:ENCODER:DATASET:FOLDER with DATASET one of hawkes"):
        load_pair(name)


def test_a_release_folder_without_files_is_refused(tmp_path):
    with pytest.raises(InputError, match="found 0 thp files for hawkes"):
        load_pair(f"release:thp:hawkes:{tmp_path}")


def test_an_unknown_pair_is_answered_with_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'thp-hawkes'"):
        card("thp-hawks")
