"""A streaming table that two flows write to: each reads the flights once, over all runs together."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

FLIGHTS = "pravega.nyc.flights"
COLUMNS = "carrier STRING, flight INT, origin STRING, dep_delay INT, time_hour TIMESTAMP"

dp.create_streaming_table(
    "departures",
    comment="Flights that left, of all airports",
    schema=COLUMNS,
    # The routing key: the rows of a carrier keep their order.
    cluster_by=["carrier"],
    table_properties={"segments": "2"},
)


def departures(of: str) -> DataFrame:
    """The flights that some airports' condition names, without those that were cancelled."""
    spark = SparkSession.getActiveSession()
    assert spark is not None
    flights = spark.readStream.table(FLIGHTS).where("dep_time IS NOT NULL").where(of)
    return flights.select("carrier", "flight", "origin", "dep_delay", "time_hour")


@dp.append_flow(target="departures")
def departures_from_kennedy() -> DataFrame:
    return departures("origin = 'JFK'")


@dp.append_flow(target="departures")
def departures_from_others() -> DataFrame:
    return departures("origin <> 'JFK'")
