"""Uses much of Spark once, so that its classes are loaded (`class_archives`); run by spark-submit, without servers."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

_ROWS = "SELECT id, id % 3 AS k, string(id) AS s, array(named_struct('a', id, 'm', map(id, id))) AS t FROM range(100)"


class Ones(DataSource):
    """A data source in Python."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "ones"

    def schema(self) -> str:
        return "id INT"

    def reader(self, schema: object) -> DataSourceReader:
        return OnesReader()


class OnesReader(DataSourceReader):
    """One row."""

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (1,)


def _collect(rows: DataFrame, batch: int) -> None:
    rows.collect()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def main(folder: Path) -> None:
    """Run statements, and a streaming query.

    Args:
        folder: for files.
    """
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.dataSource.register(Ones)
    spark.read.format("ones").load().collect()
    spark.sql(f"CREATE TEMPORARY VIEW v AS {_ROWS}")
    spark.sql("SELECT k, count(*) AS n, max(s) AS s FROM v GROUP BY k ORDER BY k").toArrow()
    spark.sql("SELECT *, row_number() OVER (PARTITION BY a.k ORDER BY id) FROM v a JOIN v b USING (id) LIMIT 3").show()
    spark.sql("EXPLAIN EXTENDED SELECT * FROM v WHERE id IN (SELECT k FROM v)").collect()
    spark.sql("SHOW NAMESPACES").collect()
    spark.createDataFrame([(1, "a")], "id INT, s STRING").mapInArrow(_same, "id INT, s STRING").collect()
    spark.table("v").write.parquet(str(folder / "rows"))
    rows = spark.readStream.schema("id LONG, k LONG").parquet(str(folder / "rows"))
    counts = rows.groupBy("k").count().writeStream.outputMode("complete").trigger(availableNow=True)
    counts = counts.option("checkpointLocation", str(folder / "checkpoint")).foreachBatch(_collect)
    counts.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
