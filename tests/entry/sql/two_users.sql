-- What ann and bob ask of one Thrift server at the same time, and what it answers (-->; ... is any text).
-- Each one's statements run one after another, both users' at once; at "-- both" they wait for each other.

-- ann
SELECT current_catalog(), current_schema();
--> pravega	default
CREATE NAMESPACE two_users COMMENT 'of both';
CREATE TABLE two_users.orders (id BIGINT NOT NULL COMMENT 'the id', customer STRING, amount DECIMAL(10,2))
  CLUSTERED BY (customer) INTO 2 BUCKETS;

-- bob
SHOW TABLES IN default;
CREATE NAMESPACE IF NOT EXISTS two_users_bob;
USE two_users_bob;
SELECT current_catalog(), current_schema();
--> pravega	two_users_bob
CREATE TEMPORARY VIEW mine AS SELECT 1 AS one;
SELECT * FROM mine;
--> 1

-- both

-- ann
USE two_users;
SELECT current_schema();
--> two_users
INSERT INTO orders VALUES (1, 'ann', 1.50), (2, 'ann', 2.50);
SET spark.sql.shuffle.partitions = 3;
--> spark.sql.shuffle.partitions	3
SELECT sum(amount) FROM orders WHERE customer = 'ann';
--> 4.00
CREATE TABLE by_ann AS SELECT id, upper(customer) AS who FROM orders WHERE customer = 'ann';
SELECT * FROM by_ann ORDER BY id;
--> 1	ANN
--> 2	ANN

-- bob
SELECT current_schema();
--> two_users_bob
INSERT INTO two_users.orders VALUES (3, 'bob', 3.50);
INSERT INTO two_users.orders SELECT id, 'bob', NULL FROM range(4, 7);
SELECT count(*), sum(amount) FROM two_users.orders WHERE customer = 'bob';
--> 4	3.50

-- since 4.2
CREATE VIEW bobs AS SELECT id FROM two_users.orders WHERE customer = 'bob';
SELECT max(id) FROM bobs;
--> 6

-- both

-- ann
SHOW TABLES;
--> two_users	by_ann	false
--> two_users	orders	false
SELECT customer, count(*), sum(amount) FROM orders GROUP BY customer ORDER BY customer;
--> ann	2	4.00
--> bob	4	3.50
SELECT version, rows FROM `orders$commits` ORDER BY version LIMIT 2;
--> 1	...
--> 2	...
SELECT count(*) FROM orders VERSION AS OF 3;
--> 6

-- since 4.2
SELECT count(*) FROM two_users_bob.bobs;
--> 4

ALTER TABLE orders ADD COLUMN note STRING;
SET spark.sql.shuffle.partitions;
--> spark.sql.shuffle.partitions	3

-- bob
SELECT count(*) FROM two_users.by_ann;
--> 2
SET spark.sql.shuffle.partitions;
--> spark.sql.shuffle.partitions	2
CALL pravega.system.create_cut(table => 'two_users.by_ann', name => 'all');
--> all	H4sI...	{0:...}

-- since 4.2
SHOW VIEWS;
--> two_users_bob	bobs	false

-- both

-- ann
INSERT INTO orders VALUES (7, 'ann', 7.50, 'late');

-- since 4.2
DROP VIEW two_users_bob.bobs;

SELECT id, note FROM orders WHERE customer = 'ann' ORDER BY id;
--> 1	NULL
--> 2	NULL
--> 7	late

-- bob
SHOW COLUMNS IN two_users.orders;
--> id
--> customer
--> amount
--> note
SELECT one FROM mine;
--> 1

-- both

-- ann
DROP NAMESPACE two_users CASCADE;

-- bob
-- since 4.2
SHOW VIEWS;

DROP NAMESPACE two_users_bob;
