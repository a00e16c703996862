"""Every format gives back the events that were written in it, and says what is wrong with a damaged file."""

from __future__ import annotations

import gzip
import json
import lzma
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tppsd_bench.data import FORMATS, check_data, read_events, read_with_report, render
from tppsd_bench.errors import InputError

TIMES = [[0.5, 1.25, 3.0], [0.25, 0.375], [1.0, 2.5, 2.75, 4.0]]
GAPS = [[0.5, 0.75, 1.75], [0.25, 0.125], [1.0, 1.5, 0.25, 1.25]]
TYPES = [[0, 2, 1], [1, 0], [2, 2, 0, 1]]


def easytpp_rows() -> list[list[dict[str, float]]]:
    keys = ("time_since_start", "time_since_last_event", "type_event")
    return [[dict(zip(keys, event, strict=True)) for event in zip(t, g, k, strict=True)]
            for t, g, k in zip(TIMES, GAPS, TYPES, strict=True)]  # fmt: skip


def write_easytpp(folder: Path) -> Path:
    path = folder / "train.pkl"
    rows = [[{k: np.float64(v) for k, v in event.items()} for event in row] for row in easytpp_rows()]
    path.write_bytes(pickle.dumps({"dim_process": 3, "train": rows, "dev": [], "test": []}))
    return path


def write_jsonl(folder: Path) -> Path:
    lines = [
        json.dumps({"dim_process": 3, "seq_len": len(t), "time_since_start": t, "time_since_last_event": g, "type_event": k})
        for t, g, k in zip(TIMES, GAPS, TYPES, strict=True)
    ]
    path = folder / "train.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def write_json_array(folder: Path) -> Path:
    path = folder / "set.json.xz"
    path.write_bytes(lzma.compress(json.dumps(easytpp_rows()).encode()))
    return path


def write_torch(folder: Path, *, zipped: bool, tensors: bool = True) -> Path:
    torch = pytest.importorskip("torch")
    wrap = torch.tensor if tensors else np.array
    sequences = [
        {"arrival_times": wrap(t), "marks": wrap(k), "t_start": 0.0, "t_end": 5}
        for t, k in zip(TIMES, TYPES, strict=True)
    ]  # fmt: skip
    path = folder / "release.pkl"
    torch.save({"sequences": sequences, "num_marks": 3}, path, _use_new_zipfile_serialization=zipped)
    return path


def write_csv(folder: Path) -> Path:
    path = folder / "log.csv.gz"
    rows = [
        f"case-{i},{t},{'abc'[k]}"
        for i, (ts, ks) in enumerate(zip(TIMES, TYPES, strict=True))
        for t, k in zip(ts, ks, strict=True)
    ]
    # Interleaved sequences are legal: only the order within a sequence counts.
    path.write_bytes(gzip.compress("\n".join(["case_id,time,event", *rows[::2], *rows[1::2]]).encode()))
    return path


def write_rmtpp(folder: Path) -> Path:
    (folder / "time-1-train.txt").write_text("\n".join(" ".join(map(str, t)) for t in TIMES) + "\n")
    (folder / "event-1-train.txt").write_text("\n".join(" ".join(str(k + 1) for k in row) for row in TYPES) + "\n")
    return folder / "time-1-train.txt"


def write_arrays(folder: Path) -> Path:
    path = folder / "events.npz"
    offsets = np.cumsum([0, *map(len, TIMES)])
    np.savez(path, times=np.concatenate(TIMES), types=np.concatenate(TYPES), offsets=offsets)
    return path


WRITERS = {
    "easytpp": write_easytpp,
    "jsonl": write_jsonl,
    "jsonl array": write_json_array,
    "torch zip": lambda folder: write_torch(folder, zipped=True),
    "torch legacy": lambda folder: write_torch(folder, zipped=False),
    "torch arrays": lambda folder: write_torch(folder, zipped=True, tensors=False),
    "table": write_csv,
    "rmtpp": write_rmtpp,
    "npz": write_arrays,
}


@pytest.mark.parametrize("kind", WRITERS)
def test_reads_back_what_was_written(kind: str, tmp_path: Path) -> None:
    path = WRITERS[kind](tmp_path)
    options = {"sort": True} if kind == "table" else {}
    batch, report = read_with_report(path, **options)
    assert report.usable
    assert report.format == kind.split()[0]
    assert batch.lengths.tolist() == [3, 2, 4]
    np.testing.assert_array_equal(batch.gaps, np.concatenate(GAPS))
    np.testing.assert_array_equal(batch.types, np.concatenate(TYPES))
    assert batch.n_types == 3
    if kind.startswith("torch"):
        assert batch.horizon is not None
        assert batch.horizon.tolist() == [5.0] * 3


def test_every_format_is_tried() -> None:
    assert {kind.split()[0] for kind in WRITERS} == set(FORMATS)


@pytest.mark.parametrize("kind", [k for k in WRITERS if k != "rmtpp"])
def test_a_truncated_file_is_refused_in_a_sentence(kind: str, tmp_path: Path) -> None:
    path = WRITERS[kind](tmp_path)
    content = path.read_bytes()
    for share in (0.3, 0.6, 0.95):
        path.write_bytes(content[: int(len(content) * share)])
        report = check_data(path, format=kind.split()[0])
        assert not report.usable
        assert path.name in report.reason


def test_empty_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("")
    assert "is empty" in check_data(tmp_path / "a.jsonl").reason
    with pytest.raises(InputError, match="no such file"):
        check_data(tmp_path / "none.pkl")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match="not a known kind"):
        check_data(tmp_path / "notes.txt")
    with pytest.raises(InputError, match="expected one of npz"):
        check_data(tmp_path / "a.jsonl", format="parrot")


def test_folder_of_splits(tmp_path: Path) -> None:
    for name in ("train", "test"):
        (tmp_path / f"{name}.pkl").write_bytes(pickle.dumps({"dim_process": 3, name: easytpp_rows()}))
    (tmp_path / "stats.json").write_text('{"train": {"n": 1}}')
    assert len(read_events(tmp_path)) == 6
    assert len(read_events(tmp_path, split="test")) == 3
    assert check_data(tmp_path).splits == {"test": 3, "train": 3}
    with pytest.raises(InputError, match="no split 'dev'; the file has test, train"):
        read_events(tmp_path, split="dev")
    write_arrays(tmp_path)
    with pytest.raises(InputError, match="one format"):
        read_events(tmp_path)
    assert len(read_events(tmp_path, format="easytpp")) == 6


def test_json_lines_with_empty_lines_and_padding(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"times": [1.0, 2.5, 0.0], "types": [0, 1, 0], "seq_len": 2}\n\n{"times": [0.5], "types": [1]}\n')
    batch, report = read_with_report(path)
    assert batch.lengths.tolist() == [2, 1]
    assert {"empty_lines", "cut_at_length"} <= report.codes("note")
    path.write_text('{"times": [1.0], "types": [0]}\nnot json\n')
    assert "a.jsonl, line 2: not JSON" in check_data(path).reason
    path.write_text('{"times": [1.0, 2.0], "types": [0]}\n')
    assert "a.jsonl, line 1 (sequence 0): 2 times, 1 types" in check_data(path).reason


def test_table_columns_dates_and_crossed_types(tmp_path: Path) -> None:
    path = tmp_path / "book.csv"
    path.write_text(
        "id,when,action,side\n7,2015-05-01T00:00:04.500Z,new,bid\n8,2015-05-01T02:00:05.750+02:00,new,ask\n7,2015-05-01T00:00:09Z,del,bid\n"
    )
    assert "no time column" in check_data(path).reason
    batch, report = read_with_report(path, time_column="when", type_column=("action", "side"))
    assert batch.gaps.tolist() == [1.25, 3.25]  # the first event is the origin of a clock of dates
    assert report.type_labels == ("del/bid", "new/ask", "new/bid")
    assert batch.types.tolist() == [1, 0]
    with pytest.raises(InputError, match="no column 'nope'"):
        read_events(path, time_column="nope")
    path.write_text("time,type\nyesterday,a\n")
    assert "neither numbers nor ISO dates" in check_data(path).reason
    path.write_text("time,type\n1,a\n2,\n")
    assert "row 1: the type is missing" in check_data(path).reason


def test_parquet_is_read_or_the_missing_package_named(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        path.write_bytes(b"PAR1")
        assert "pip install 'tppsd-bench[parquet]'" in check_data(path).reason
        pytest.skip("pyarrow is not installed: only the sentence was checked")
    import pandas as pd

    pd.DataFrame({"time": [1.0, 2.5], "type": [0, 1]}).to_parquet(path)
    assert read_events(path).gaps.tolist() == [1.0, 1.5]


def test_rmtpp_mismatches(tmp_path: Path) -> None:
    path = write_rmtpp(tmp_path)
    (tmp_path / "event-1-train.txt").write_text("1 3 2\n2\n3 3 1 2\n")
    assert "time-1-train.txt, line 2: 2 times but 1 types" in check_data(path).reason
    (tmp_path / "event-1-train.txt").unlink()
    assert "no event-1-train.txt beside it" in check_data(path).reason


def test_report_renders_and_tabulates(tmp_path: Path) -> None:
    report = check_data(write_jsonl(tmp_path))
    text = render(report)
    assert "usable" in text.splitlines()[0]
    assert "\x1b" not in text
    frame = report.to_frame()
    assert dict(zip(frame["quantity"], frame["value"], strict=True))["events"] == 9
    assert list(report.findings_frame().columns) == ["severity", "code", "sentence"]


def test_import_is_light() -> None:
    heavy = "{'torch', 'scipy', 'pandas', 'statsmodels', 'matplotlib', 'rich'}"
    code = f"import sys, tppsd_bench.data; print({heavy} & set(sys.modules))"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert found.stdout.strip() == "set()"
