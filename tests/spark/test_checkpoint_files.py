"""The files of a checkpoint: those of `CheckpointFiles` are as Spark's, and one driver only gives a file its name."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from since import is_missing

CONFIGURED = "spark.sql.streaming.checkpointFileManagerClass"
OURS = "pyspark.pravega.CheckpointFiles"
_SPARKS = "org.apache.spark.sql.execution.streaming" + ("" if is_missing("4.1") else ".checkpointing")
WAYS = {
    "ours": OURS,
    "by context": f"{_SPARKS}.FileContextBasedCheckpointFileManager",
    "by system": f"{_SPARKS}.FileSystemBasedCheckpointFileManager",
}


class Files:
    """One of Spark's checkpoint file managers, for one folder."""

    def __init__(self, spark: SparkSession, way: str, folder: Path) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._folder = folder
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        conf.set(CONFIGURED, WAYS[way])
        self._files = getattr(self._jvm, f"{_SPARKS}.CheckpointFileManager").create(self.path(""), conf)

    def path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"file://{self._folder}/{name}")

    def write(self, name: str, text: str, overwrite: bool = False) -> None:
        stream = self._files.createAtomic(self.path(name), overwrite)
        stream.write(bytearray(text.encode()))
        stream.close()

    def cancel(self, name: str) -> None:
        stream = self._files.createAtomic(self.path(name), False)
        stream.write(bytearray(b"not to be"))
        stream.cancel()

    def read(self, name: str) -> str:
        stream = self._files.open(self.path(name))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def names(self) -> list[str]:
        return sorted(status.getPath().getName() for status in self._files.list(self.path("")))

    def exists(self, name: str) -> bool:
        return bool(self._files.exists(self.path(name)))

    def delete(self, name: str) -> None:
        self._files.delete(self.path(name))


def test_configure_names_them_for_each_session_of_its_context(spark: SparkSession) -> None:
    assert spark.conf.get(CONFIGURED) == OURS
    assert spark.newSession().conf.get(CONFIGURED) == OURS


@pytest.mark.parametrize("other", ["by context", "by system"])
def test_what_one_way_wrote_the_other_one_reads_and_replaces(spark: SparkSession, other: str, tmp_path: Path) -> None:
    ways = [Files(spark, "ours", tmp_path), Files(spark, other, tmp_path)]
    # Of Spark's two ways one leaves a local file that is there, and only warns.
    writers = ways if other == "by context" else ways[:1]
    for number, (first, second) in enumerate([ways, ways[::-1]]):
        name = str(number)
        first.write(name, "one")
        assert (tmp_path / f".{name}.crc").exists()
        assert second.read(name) == first.read(name) == "one"
        with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
            second.write(name, "two")
        assert first.read(name) == "one"

        # A reader checks the checksum: it has to be that of the new file, each time.
        for text in ("three", "four"):
            for number_of_writer, way in enumerate(writers):
                way.write(name, text * (1 + number_of_writer), overwrite=True)
                assert second.read(name) == first.read(name) == text * (1 + number_of_writer)
        first.cancel("never")
        assert not second.exists("never")
        assert ways[0].names() == [str(n) for n in range(number + 1)]
    ways[0].delete("0")
    ways[1].delete("1")
    # Spark's own way leaves the files of the one that came second.
    assert {path.name for path in tmp_path.iterdir() if not path.name.endswith((".tmp", ".tmp.crc"))} == set()


def test_a_checksum_that_was_left_alone_is_nobodys(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(spark, "ours", tmp_path)
    files.write("0", "one")
    (tmp_path / "0").unlink()
    files.write("0", "two")
    assert files.read("0") == "two"
    (tmp_path / "0").write_text("twp")
    with pytest.raises(Py4JJavaError, match="Checksum"):
        files.read("0")


def test_one_of_two_drivers_gives_a_file_its_name(spark: SparkSession, tmp_path: Path) -> None:
    names = [str(number) for number in range(100)]
    wrote: dict[str, list[str]] = {"one": [], "other": []}
    refusals: list[str] = []
    barrier = threading.Barrier(2)

    def write(driver: str) -> None:
        files = Files(spark, "ours", tmp_path)
        for name in names:
            barrier.wait()
            try:
                files.write(name, driver)
                wrote[driver].append(name)
            except Py4JJavaError as error:
                refusals.append(str(error.java_exception))

    threads = [threading.Thread(target=write, args=(driver,)) for driver in wrote]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted([*wrote["one"], *wrote["other"]]) == sorted(names)
    files = Files(spark, "ours", tmp_path)
    for driver, its_names in wrote.items():
        assert {files.read(name) for name in its_names} <= {driver}
    assert all("FileAlreadyExistsException" in refusal for refusal in refusals)
    # Nothing of the one that came second is left. It may have taken a checksum for one of an earlier file.
    assert {path.name for path in tmp_path.iterdir()} - {f".{name}.crc" for name in names} == set(names)


def test_a_file_that_a_killed_driver_was_writing_is_no_entry(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(spark, "ours", tmp_path)
    files.write("0", "one")
    (tmp_path / ".1.5d9c58d4-f1a4-4f0e-8a6a-2bb3be9e4b7d.tmp").write_text("hal")
    assert files.names() == ["0"]


def test_files_may_be_read_by_whom_the_disk_and_hadoop_say(spark: SparkSession, tmp_path: Path) -> None:
    for way in WAYS:
        Files(spark, way, tmp_path).write(way, "one")
    modes = {way: stat.S_IMODE(os.stat(tmp_path / way).st_mode) for way in WAYS}
    modes |= {f"{way}, checksum": stat.S_IMODE(os.stat(tmp_path / f".{way}.crc").st_mode) for way in WAYS}
    assert set(modes.values()) == {0o644}, modes
