-- Computed anew with each run. Readers see the rows of one run or of the next, never some of both.
CREATE MATERIALIZED VIEW delays
COMMENT 'Departures, and their mean delay in minutes, by carrier'
AS SELECT carrier, count(*) AS departures, round(avg(dep_delay), 2) AS delay FROM departures GROUP BY carrier;
