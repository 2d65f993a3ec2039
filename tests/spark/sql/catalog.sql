-- Every statement that a user of the catalog types, with what spark-sql answers behind it (-->; ... is any text).
-- What stands behind "since", up to an empty line, is asked of no older Spark.

-- Namespaces

CREATE NAMESPACE pravega.sql_shop COMMENT 'the shop' WITH DBPROPERTIES ('team' = 'us');
CREATE NAMESPACE IF NOT EXISTS pravega.sql_shop;
DESCRIBE NAMESPACE EXTENDED pravega.sql_shop;
--> Catalog Name	pravega
--> Namespace Name	sql_shop
--> Comment	the shop
--> Properties	((scope,sql-shop), (team,us))
ALTER NAMESPACE pravega.sql_shop SET DBPROPERTIES ('team' = 'them', 'x' = 'y');
ALTER NAMESPACE pravega.sql_shop UNSET DBPROPERTIES ('x');
COMMENT ON NAMESPACE pravega.sql_shop IS 'another shop';
DESCRIBE NAMESPACE EXTENDED pravega.sql_shop;
--> Catalog Name	pravega
--> Namespace Name	sql_shop
--> Comment	another shop
--> Properties	((scope,sql-shop), (team,them))
SHOW NAMESPACES IN pravega LIKE 'sql_shop*';
--> sql_shop
USE pravega.sql_shop;
SELECT current_catalog(), current_schema();
--> pravega	sql_shop

-- Tables

CREATE TABLE orders (id BIGINT NOT NULL COMMENT 'the id', customer STRING, amount DECIMAL(10,2))
  CLUSTERED BY (customer) INTO 2 BUCKETS COMMENT 'all orders' TBLPROPERTIES ('team.owner' = 'us', 'retention' = '7 days');
CREATE TABLE IF NOT EXISTS orders (other INT);
SHOW TABLES;
--> orders
SHOW TABLES LIKE 'ord*';
--> orders
SHOW COLUMNS IN orders;
--> id
--> customer
--> amount
DESCRIBE orders;
--> id                  	bigint              	the id
--> customer            	string
--> amount              	decimal(10,2)
--> # Clustering Information
--> # col_name          	data_type           	comment
--> customer            	string
SHOW TBLPROPERTIES orders ('retention');
--> retention	7 days
INSERT INTO orders VALUES (1, 'ann', 1.50), (2, 'bob', 2.50);
INSERT INTO orders (customer, id, amount) VALUES ('cat', 3, DEFAULT);
SELECT * FROM orders ORDER BY id;
--> 1	ann	1.50
--> 2	bob	2.50
--> 3	cat	NULL

-- since 4.2
CREATE TABLE copied LIKE orders;
SHOW TBLPROPERTIES copied ('retention');
--> retention	7 days
DROP TABLE copied;

CREATE TABLE big CLUSTERED BY (customer) INTO 2 BUCKETS AS SELECT * FROM orders WHERE id > 1;
SELECT count(*), max(id) FROM big;
--> 2	3
CREATE OR REPLACE TABLE big AS SELECT id AS other, 'x' AS s FROM orders;
SELECT * FROM big ORDER BY other;
--> 1	x
--> 2	x
--> 3	x
CREATE OR REPLACE TABLE big (one INT);
SELECT count(*) FROM big;
--> 0
INSERT INTO big VALUES (1);
INSERT OVERWRITE big VALUES (2), (3);
SELECT * FROM big ORDER BY one;
--> 2
--> 3
TRUNCATE TABLE big;
SELECT count(*) FROM big;
--> 0
DROP TABLE big PURGE;
DROP TABLE IF EXISTS big;
SHOW TABLES;
--> orders

-- ALTER TABLE

ALTER TABLE orders ADD COLUMNS (note STRING COMMENT 'a note', n INT);
ALTER TABLE orders ALTER COLUMN n TYPE BIGINT;
ALTER TABLE orders ALTER COLUMN n COMMENT 'how many';
ALTER TABLE orders ALTER COLUMN n AFTER id;
ALTER TABLE orders ALTER COLUMN id DROP NOT NULL;
ALTER TABLE orders DROP COLUMN note;
SHOW COLUMNS IN orders;
--> id
--> n
--> customer
--> amount
SELECT id, n FROM orders ORDER BY id LIMIT 1;
--> 1	NULL
ALTER TABLE orders SET TBLPROPERTIES ('compatibility' = 'Full', 'tags' = 'a, b', 'compression' = 'gzip');
ALTER TABLE orders UNSET TBLPROPERTIES ('retention', 'team.owner');
ALTER TABLE orders SET TBLPROPERTIES ('lake' = 'iceberg', 'lake-partitioned-by' = 'Bucket(16, customer)');
SHOW TBLPROPERTIES orders ('lake-partitioned-by');
--> lake-partitioned-by	bucket(16, customer)
ALTER TABLE orders UNSET TBLPROPERTIES ('lake', 'lake-partitioned-by');
SELECT * FROM `orders$properties` WHERE key IN ('compatibility', 'tags', 'compression', 'retention', 'team.owner') ORDER BY key;
--> compatibility	Full
--> compression	gzip
--> tags	a, b
COMMENT ON TABLE orders IS 'some orders';
SELECT value FROM `orders$properties` WHERE key = 'comment';
--> some orders

-- Versions, and what was committed between them

INSERT INTO orders VALUES (4, 44, 'dan', 4.50);
SELECT count(*) FROM orders VERSION AS OF 1;
--> 2
SELECT count(*) FROM orders TIMESTAMP AS OF current_timestamp();
--> 4
SELECT _commit_version, _change_type, id FROM `orders$changes` WITH (startingVersion = 2, endingVersion = 3) ORDER BY 1, 3;
--> 2	insert	3
--> 3	insert	4

-- since 4.2
SELECT _commit_version, _change_type, id FROM orders CHANGES FROM VERSION 2 TO VERSION 3 ORDER BY 1, 3;
--> 2	insert	3
--> 3	insert	4

CALL pravega.system.create_cut(table => 'sql_shop.orders', name => 'before_scaling');
--> before_scaling	H4sI...	{0:...,1:...}
SELECT count(*) FROM orders VERSION AS OF 'before_scaling';
--> 4

-- Metadata

SELECT version, rows FROM `orders$commits` ORDER BY version;
--> 1	2
--> 2	1
--> 3	1
SELECT s.segment, sum(o._event_size) > 0, min(o._encoding_id) FROM orders o JOIN `orders$segments` s ON o._segment = s.segment WHERE o.id = 4 GROUP BY s.segment;
--> 0	true	1
SELECT name FROM `orders$cuts`;
--> before_scaling
SELECT id, format FROM `orders$schemas` ORDER BY id LIMIT 1;
--> 0	Avro
SELECT epoch, segments FROM `orders$epochs`;
--> 0	[0,1]
SELECT count(*) FROM `orders$transactions` WHERE state = 'COMMITTED';
--> 3

-- Procedures

ALTER TABLE orders SET TBLPROPERTIES ('index-columns' = 'id');
CALL pravega.system.index('sql_shop.orders');
--> ...	4	...	0	0
ALTER TABLE orders UNSET TBLPROPERTIES ('index-columns');
CALL pravega.system.analyze('sql_shop.orders', columns => array('id'));
--> ...	id	4	0	4	1	4	NULL
CALL pravega.system.scale(table => 'sql_shop.orders', segments => 3);
--> 4294967298	0.0	0.3333333333333333
--> 4294967299	0.3333333333333333	0.6666666666666666
--> 4294967300	0.6666666666666666	1.0
SELECT count(*) FROM orders WHERE _segment < 4294967298;
--> 4
CALL pravega.system.truncate('sql_shop.orders', '2');
--> H4sI...	{0:...,1:...}
SELECT id FROM orders;
--> 4
CALL pravega.system.set_compatibility('sql_shop.orders', 'Backward');
--> Full	Backward
CALL pravega.system.drop_cut('sql_shop.orders', 'before_scaling');
--> true
CALL pravega.system.subscribers('sql_shop.orders');
CALL pravega.system.drop_subscriber('sql_shop.orders', 'nobody');
--> false
CALL pravega.system.seal('sql_shop.orders');
--> H4sI...	{4294967298:0,4294967299:0,4294967300:0}

-- since 4.1
SHOW PROCEDURES IN pravega.system;
--> pravega	["system"]	system	abort
--> pravega	["system"]	system	analyze
--> pravega	["system"]	system	begin
--> pravega	["system"]	system	clean_lake
--> pravega	["system"]	system	commit
--> pravega	["system"]	system	compact
--> pravega	["system"]	system	copy
--> pravega	["system"]	system	create_cut
--> pravega	["system"]	system	drop_cut
--> pravega	["system"]	system	drop_subscriber
--> pravega	["system"]	system	index
--> pravega	["system"]	system	redeliver
--> pravega	["system"]	system	register_schema
--> pravega	["system"]	system	rollback
--> pravega	["system"]	system	scale
--> pravega	["system"]	system	seal
--> pravega	["system"]	system	set_compatibility
--> pravega	["system"]	system	subscribers
--> pravega	["system"]	system	take_version
--> pravega	["system"]	system	tier
--> pravega	["system"]	system	truncate
--> pravega	["system"]	system	watermark

-- A stream without a schema gets one

CREATE TABLE events (event BINARY NOT NULL) TBLPROPERTIES ('format' = 'raw');
CALL pravega.system.register_schema('sql_shop.events', columns => 'id BIGINT, s STRING');
--> 0	sql_shop.events	0
INSERT INTO events VALUES (1, 'a');
SELECT * FROM events;
--> 1	a

-- Views

-- since 4.2
CREATE VIEW small AS SELECT id, s FROM events WHERE id < 10;
CREATE OR REPLACE VIEW small (number, text) COMMENT 'small ones' AS SELECT id, upper(s) AS s FROM events;
SELECT * FROM small;
--> 1	A
SHOW VIEWS;
--> sql_shop	small	false
ALTER VIEW small AS SELECT id FROM events;
ALTER VIEW small RENAME TO smaller;
SELECT * FROM smaller;
--> 1
SHOW CREATE TABLE smaller;
--> CREATE VIEW pravega.sql_shop.smaller (
-->   id)
--> COMMENT 'small ones'
--> WITH SCHEMA COMPENSATION
--> AS SELECT id FROM events
-->
DROP VIEW smaller;
DROP VIEW IF EXISTS smaller;

-- Another catalog, and a setting of the session: both by the program's flags

SHOW NAMESPACES IN streams LIKE 'sql_shop*';
--> sql_shop
SET `spark.pravega.shared-memory`;
--> spark.pravega.shared-memory	2097152
DROP NAMESPACE pravega.sql_shop CASCADE;
SHOW NAMESPACES IN pravega LIKE 'sql_shop*';
