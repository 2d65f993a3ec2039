-- Computed anew with each run. Spark empties the table, and then writes it: the property makes one moment of both, so
-- that readers see the rows of one run or of the next.
CREATE MATERIALIZED VIEW delays
COMMENT 'Departures, and their mean delay in minutes, by carrier'
TBLPROPERTIES ('truncate-with-next-write' = 'true')
AS SELECT carrier, count(*) AS departures, round(avg(dep_delay), 2) AS delay FROM departures GROUP BY carrier;
