"""What `make bench` shows and records, and that every benchmark can still be loaded."""

import importlib.util
import os
from pathlib import Path

import pytest

from topicast.tests.bench import run
from topicast.tests.bench.run import HERE, lines_of, merged, read_lines, shown, write_lines

OLD = {"bench": "wire", "name": "encode", "us": 2.0, "beside": "msgpack", "its": 1.0, "ratio": 2.0}


def test_line_says_what_changed_and_what_it_stands_beside() -> None:
    line = OLD | {"us": 3.0, "its": 1.5, "bytes": 1157}
    assert shown(line, OLD) == "encode  us 3.0 (+50%)  bytes 1,157  = 2.0 of msgpack 1.5"


@pytest.mark.parametrize(("met", "text"), [(True, "[at most 10]"), (False, "[MISSED 10]")])
def test_line_shows_whether_a_number_to_reach_was_reached(met: bool, text: str) -> None:
    assert shown({"bench": "b", "name": "n", "target": 10, "met": met}, {}) == f"n  {text}"


def test_line_says_that_a_number_to_reach_is_a_lower_bound() -> None:
    line = {"bench": "b", "name": "n", "target": 0.9, "least": True, "met": True}
    assert shown(line, {}) == "n  [at least 0.9]"


def test_a_benchmark_is_recorded_whole_and_others_stay(tmp_path: Path) -> None:
    other = {"bench": "view", "name": "read", "us": 4.0}
    write_lines(tmp_path / "results.jsonl", [other, OLD])
    recorded = read_lines(tmp_path / "results.jsonl")
    new = {"bench": "wire", "name": "decode", "us": 7.0}
    assert merged(recorded, [new]) == [other, new]


def test_lines_come_as_the_script_prints_them_and_other_text_is_passed_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "bench_one.py"
    script.write_text('def main():\n    print("preparing")\n    print(\'{"name": "n", "us": 1}\')')
    assert list(lines_of(script)) == [{"bench": "one", "name": "n", "us": 1}]
    assert capsys.readouterr().out == "  preparing\n"


@pytest.mark.parametrize(
    ("prints", "code", "text"),
    [
        ('{"name": "n", "us": 1, "target": 2, "met": true}', 0, "1 results"),
        ('{"name": "n", "us": 3, "target": 2, "met": false}', 1, "missed: one.n"),
        ('{"name": "n", "us": 3}', 1, "failed: one.n (it states no target)"),
        ('{"name": "n", "us": 3, "reference": "all"}', 0, "1 results"),
        ("{", 1, "failed: bench_one"),
    ],
)
def test_missed_target_or_a_failed_script_ends_with_1(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    prints: str,
    code: int,
    text: str,
) -> None:
    monkeypatch.setattr(run, "LATEST", tmp_path / "bench.jsonl")
    script = tmp_path / "bench_one.py"
    does = f"print({prints!r})" if len(prints) > 1 else "raise SystemExit(3)"
    script.write_text(f"def main():\n    {does}")
    assert run.main([str(script)]) == code
    assert text in capsys.readouterr().out


@pytest.mark.parametrize(("commit", "cores"), [("abc", 3), ("abc+", 2)])
def test_nothing_is_kept_on_another_number_of_cores_or_of_a_changed_tree(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    commit: str,
    cores: int,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(run, "origin", lambda: {"commit": commit})
    assert run.main(["--keep", "never started"]) == 2
    assert "kept is what a commit does on 2 cores" in capsys.readouterr().err


@pytest.mark.parametrize("script", sorted(HERE.glob("bench_*.py")), ids=lambda path: path.stem)
def test_benchmark_can_be_loaded(script: Path) -> None:
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
