"""Events streamed to disk: bit for bit what one request gives, whatever the chunk; interrupted, resumed, read back; memory bounded."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from reference_impls.pairs import load_pair
from tppsd_bench import store, streaming
from tppsd_bench.cli import main
from tppsd_bench.cli_sample import Size
from tppsd_bench.data import read_events
from tppsd_bench.errors import InputError, RunBroken
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import SampleRequest, SampleRun, Stop
from tppsd_bench.streaming import read_chunks, stream_events, totals
from tppsd_bench.streams import StreamKey

PAIR = load_pair("toy-marked")
SAMPLER = PAIR.sampler("speculative")
REQUEST = SampleRequest(23, Stop(n_events=9), StreamKey(seed=4, cell="streaming"), first_sequence=5)
ABOUT = {"pair": "toy-marked"}


def same(a: EventBatch, b: EventBatch) -> bool:
    """Equal to the last bit, horizons too."""
    horizons = (a.horizon is None) == (b.horizon is None) and (a.horizon is None or np.array_equal(a.horizon, b.horizon))
    return horizons and all(np.array_equal(getattr(a, f), getattr(b, f)) for f in ("gaps", "types", "lengths", "n_types"))


class Fails:
    """Breaks at the chunk that begins with sequence ``at``."""

    declares = SAMPLER.declares

    def __init__(self, at: int) -> None:
        self.at = at

    def sample(self, request: SampleRequest) -> Any:
        if request.first_sequence == self.at:
            raise KeyboardInterrupt
        return SAMPLER.sample(request)


@pytest.mark.parametrize("chunk", [1, 7, 23, 64])
@pytest.mark.parametrize("stop", [Stop(n_events=9), Stop(horizon=4.0)], ids=["events", "horizon"])
def test_the_chunks_are_one_request(chunk: int, stop: Stop, tmp_path: Path) -> None:
    request = replace(REQUEST, stop=stop)
    folder = stream_events(SAMPLER, request, tmp_path / "events", about=ABOUT, chunk=chunk)
    whole = SAMPLER.sample(request)
    batches = list(read_chunks(folder))
    assert [len(b) for b in batches] == [min(chunk, 23 - i) for i in range(0, 23, chunk)]
    assert same(EventBatch.concat(batches), whole.events)
    held = totals(folder)
    assert (held.n_sequences, held.n_events) == (23, whole.events.n_events)
    assert held.counts.committed == whole.counts.committed
    assert held.counts.target_row_forwards == whole.counts.target_row_forwards
    assert same(read_events(folder), whole.events), "data check reads the folder as it is"


def test_an_interrupted_folder_goes_on_where_it_was(tmp_path: Path) -> None:
    name = tmp_path / "events"
    with pytest.raises(KeyboardInterrupt):
        stream_events(Fails(5 + 16), REQUEST, name, about=ABOUT, chunk=8)
    assert not name.exists()
    partial = tmp_path / "events.partial"
    assert sum(len(b) for b in read_chunks(name)) == 16, "what is finished can be read already"
    (partial / ".chunk-00002.npz.123").write_bytes(b"half a chunk of a killed process")
    before = {p.name: p.stat().st_mtime_ns for p in partial.glob("chunk-*")}
    with pytest.raises(InputError, match="add --resume"):
        stream_events(SAMPLER, REQUEST, name, about=ABOUT, chunk=8)
    folder = stream_events(SAMPLER, REQUEST, name, about=ABOUT, chunk=8, resume=True)
    assert same(EventBatch.concat(list(read_chunks(folder))), SAMPLER.sample(REQUEST).events)
    assert before.items() <= {p.name: p.stat().st_mtime_ns for p in folder.glob("chunk-*")}.items(), "no chunk is drawn twice"
    assert sorted(p.name for p in folder.iterdir()) == ["chunk-00000.npz", "chunk-00001.npz", "chunk-00002.npz", "run.json"]
    assert json.loads((folder / "run.json").read_text())["status"] == "finished"


@pytest.mark.parametrize(
    "change", [{"about": {"pair": "other"}}, {"chunk": 4}, {"request": replace(REQUEST, key=StreamKey(seed=5))}],
    ids=["pair", "chunk", "seed"],
)  # fmt: skip
def test_another_request_does_not_go_on(change: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        stream_events(Fails(5 + 16), REQUEST, tmp_path / "events", about=ABOUT, chunk=8)
    asked: dict[str, Any] = {"request": REQUEST, "about": ABOUT, "chunk": 8, **change}
    with pytest.raises(InputError, match="was started with another"):
        stream_events(SAMPLER, asked.pop("request"), tmp_path / "events", resume=True, **asked)


def test_a_full_disk_leaves_no_half_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_file: Any, **_arrays: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(streaming.np, "savez", full)
    with pytest.raises(RunBroken, match="No space left on device"):
        stream_events(SAMPLER, REQUEST, tmp_path / "events", about=ABOUT)
    assert [p.name for p in (tmp_path / "events.partial").iterdir() if "chunk" in p.name] == []


def test_a_sampler_that_gives_too_few_is_refused(tmp_path: Path) -> None:
    class Short(Fails):
        def sample(self, request: SampleRequest) -> Any:
            return SAMPLER.sample(replace(request, n_sequences=request.n_sequences - 1))

    with pytest.raises(InputError, match=r"gave 7 sequences where 8 were asked for \(from number 5 on\)"):
        stream_events(Short(0), REQUEST, tmp_path / "events", about=ABOUT, chunk=8)


class Plain:
    """Sequences of 2,000 events at no cost."""

    declares = SAMPLER.declares

    def sample(self, request: SampleRequest) -> SampleRun:
        n = request.n_sequences
        rng = request.key.generator(request.first_sequence)
        return SampleRun(EventBatch(rng.random(n * 2000), np.zeros(n * 2000, dtype=np.int64), np.full(n, 2000), 1))


def peak_of(n: int, folder: Path, keep: list[EventBatch] | None = None) -> int:
    """Bytes that numpy held at most while ``n`` sequences were drawn and read back; ``keep``: the fault of holding on to them."""
    tracemalloc.start()
    try:
        for batch in read_chunks(stream_events(Plain(), replace(REQUEST, n_sequences=n), folder, about=ABOUT, chunk=16)):
            if keep is not None:
                keep.append(batch)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_sequences(tmp_path: Path) -> None:
    few, many = peak_of(32, tmp_path / "few"), peak_of(640, tmp_path / "many")
    assert many < few + 200_000  # 608 sequences more are 19 MB of events
    assert peak_of(640, tmp_path / "kept", keep=[]) > few + 15_000_000, "the measure sees what is held"


# -- the command -----------------------------------------------------------------------------------------------------------
def sample(*words: str) -> Any:
    return CliRunner().invoke(main, ["sample", "--pair", "toy-marked", "--quiet", *words])


def test_sample_draws_what_the_pairs_sampler_draws_and_data_check_reads_it(tmp_path: Path) -> None:
    out = str(tmp_path / "events")
    words = (
        "--n",
        "40",
        "--length",
        "25",
        "--seed",
        "3",
        "--out",
        out,
        "--k",
        "4",
        "--draft",
        "stress",
        "--memory-limit",
        "5MB",
    )
    done = sample(*words)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("40 sequences, 1,000 events, 0.")
    assert done.output.splitlines()[-1] == out
    run = store.read_json(tmp_path / "events" / "run.json")
    assert run["about"] == {
        "pair": "toy-marked",
        "sampler": "speculative",
        "draft": "stress",
        "k": "4",
        "rule": "leviathan_two_step",
    }
    request = SampleRequest(40, Stop(n_events=25), StreamKey(**run["key"]))
    assert same(
        EventBatch.concat(list(read_chunks(out))), PAIR.sampler("speculative", draft="stress", k=4).sample(request).events
    )
    checked = CliRunner().invoke(main, ["data", "check", out])
    assert checked.exit_code == 0, checked.output
    assert "40" in checked.output
    again = sample(*words)
    assert again.exit_code == 2
    assert "is finished and is never changed" in again.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--length", "5", "--horizon", "2"], "Give --length or --horizon, not both"),
        (["--draft", "none"], "has no sampler"),
        (["--memory-limit", "2kB", "--length", "5"], "A memory limit of 2 kB is too small for one sequence"),
        (["--memory-limit", "much"], "'much' is not a size; expected e.g. 500MB or 1GB"),
    ],
)
def test_what_cannot_be_drawn_is_said(words: list[str], said: str, tmp_path: Path) -> None:
    done = sample("--n", "4", "--out", str(tmp_path / "events"), *words)
    assert done.exit_code == 2
    assert said in done.output
    assert not list((tmp_path).glob("events*/chunk*"))


@pytest.mark.parametrize(("text", "size"), [("500MB", 500_000_000), ("1GB", 10**9), ("1.5 GiB", 1_610_612_736), ("4096", 4096)])
def test_sizes(text: str, size: int) -> None:
    assert Size().convert(text, None, None) == size
