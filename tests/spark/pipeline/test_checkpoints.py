"""Reading checkpoints without Spark, and their owners."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.spark.pipeline import PipelineError
from barnabas.spark.pipeline.checkpoints import (
    Lock,
    claim,
    forget,
    is_running,
    local_folder,
    mend,
    read_done,
    read_identity,
)

READS = {"counts": ["lines (logs)"], "bad": ["lines (logs)"]}


def batch(folder: Path, number: int, *sources: str, is_done: bool = True) -> None:
    """As Spark writes it."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    facts = '{"batchWatermarkMs":1000,"batchTimestampMs":5,"conf":{}}'
    (folder / "offsets" / str(number)).write_text("\n".join(["v1", facts, *sources]), "utf-8")
    if is_done:
        (folder / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":2000}', "utf-8")


def test_how_far_a_query_is(tmp_path: Path) -> None:
    assert read_done(tmp_path / "never").begun is None
    batch(tmp_path, 9, '{"logs":{"0":5}}', "-", '{"logOffset":3}')
    batch(tmp_path, 10, '{"logs":{"0":7,"1":2}}', '{"logs":{"0":6}}', '{"logOffset":4}')
    batch(tmp_path, 11, '{"logs":{"0":9}}', is_done=False)
    (tmp_path / "commits" / ".10.crc").write_text("", "utf-8")
    done = read_done(tmp_path)
    assert (done.batch, done.begun, done.watermark_ms) == (10, 11, 2000)
    assert done.sources == ({"logs": {"0": 7, "1": 2}}, {"logs": {"0": 6}}, None)
    assert done.offsets == {"logs": {"0": 6, "1": 2}}
    assert done.done_ms is not None


def test_a_checkpoint_is_of_one_pipeline_and_its_sources(tmp_path: Path) -> None:
    claim(tmp_path, "logs", READS)
    claim(tmp_path, "logs", {"counts": ["lines (logs)"]})
    assert read_identity(tmp_path) is not None
    with pytest.raises(PipelineError, match=r"of the pipeline logs, not of orders.*--set checkpoint=FOLDER"):
        claim(tmp_path, "orders", READS)
    # Nothing was done yet, so nothing is lost.
    claim(tmp_path, "logs", {"counts": ["lines (other)"]})
    batch(tmp_path / "counts", 0)
    with pytest.raises(
        PipelineError, match=r"reads lines \(logs\), but .* read lines \(other\).*pipeline reset"
    ):
        claim(tmp_path, "logs", {"counts": ["lines (logs)"]})


def test_a_checkpoint_of_a_plain_query_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id":"x"}', "utf-8")
    with pytest.raises(PipelineError, match="of a query that no pipeline started"):
        claim(tmp_path, "logs", READS)
    (tmp_path / "pipeline.json").write_text("{", "utf-8")
    with pytest.raises(PipelineError, match=r"pipeline.json cannot be read"):
        read_identity(tmp_path)


def test_a_forgotten_sink_starts_over(tmp_path: Path) -> None:
    claim(tmp_path, "logs", READS)
    for sink in READS:
        batch(tmp_path / sink, 0)
    forget(tmp_path, ["counts"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad", "pipeline.json"]
    claim(tmp_path, "logs", {"counts": ["lines (other)"]})
    forget(tmp_path, ["bad", "counts"])
    assert list(tmp_path.iterdir()) == []


def test_a_query_is_run_by_one_process(tmp_path: Path) -> None:
    assert not is_running(tmp_path, "counts")
    lock = Lock(tmp_path, "counts")
    assert lock.take()
    ask = (
        "from pathlib import Path; from barnabas.spark.pipeline.checkpoints import Lock, is_running; "
        f"print(is_running(Path({str(tmp_path)!r}), 'counts'), Lock(Path({str(tmp_path)!r}), 'counts').take())"
    )

    def asked() -> str:
        return subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout

    assert asked() == "True False\n"
    # The process that runs it may check, too: that must not release the lock.
    assert is_running(tmp_path, "counts")
    assert asked() == "True False\n"
    lock.free()
    assert asked() == "False True\n"


def test_folders_that_are_not_here() -> None:
    assert local_folder("checkpoints/a") == Path("checkpoints/a")
    assert local_folder("file:///var/a") == Path("/var/a")
    assert local_folder("file:/var/a") == Path("/var/a")
    assert local_folder("s3a://bucket/a") is None
    assert local_folder("hdfs://host/a") is None


def test_unreadable_logs_are_as_if_there_were_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch(tmp_path, 3, '{"logs":{"0":5}}', "{broken", "-")
    done = read_done(tmp_path)
    assert (done.batch, done.sources) == (3, ({"logs": {"0": 5}}, None, None))
    (tmp_path / "commits" / "3").write_text("v1", "utf-8")
    assert read_done(tmp_path).watermark_ms == 1000, "of the batch itself"
    (tmp_path / "offsets" / "3").unlink()
    assert read_done(tmp_path).sources == ()
    batch(tmp_path, 4, '{"logs":{"0":5}}')
    size = (tmp_path / "offsets" / "4").stat().st_size
    monkeypatch.setattr("barnabas.spark.pipeline.checkpoints.MAX_LOG_BYTES", size)
    assert read_done(tmp_path).sources != ()
    monkeypatch.setattr("barnabas.spark.pipeline.checkpoints.MAX_LOG_BYTES", size - 1)
    assert read_done(tmp_path).sources == ()


@pytest.mark.parametrize("half", ["", "v1", 'v1\n{"batchWater', 'v1\n{"a":1}\n{"logs":{"0'])
def test_offsets_that_were_half_written_are_removed(tmp_path: Path, half: str) -> None:
    """As after a kill of the driver: Spark would refuse to start for ever, and the batch has not begun."""
    query = tmp_path / "counts"
    batch(query, 0, '{"logs":{"0":5}}')
    path = query / "offsets" / "1"
    path.write_text(half, "utf-8")
    path.with_name(".1.crc").write_bytes(b"")
    assert mend(tmp_path, "counts") == [str(path)]
    assert sorted(file.name for file in (query / "offsets").iterdir()) == ["0"]
    assert mend(tmp_path, "counts") == []


def test_whole_files_of_a_checkpoint_stay(tmp_path: Path) -> None:
    query = tmp_path / "counts"
    assert mend(tmp_path, "counts") == []
    batch(query, 0, '{"logs":{"0":5}}', "-")
    batch(query, 1, '{"logs":{"0":9}}', is_done=False)
    assert mend(tmp_path, "counts") == []
    # What was committed was complete, whatever it looks like now.
    (query / "offsets" / "0").write_text("", "utf-8")
    (query / "offsets" / "1").unlink()
    assert mend(tmp_path, "counts") == []


def test_a_query_that_was_killed_at_its_very_start_begins_again(tmp_path: Path) -> None:
    query = tmp_path / "counts"
    query.mkdir()
    (query / "metadata").write_text('{"id":"a', "utf-8")
    assert mend(tmp_path, "counts") == [str(query / "metadata")]
