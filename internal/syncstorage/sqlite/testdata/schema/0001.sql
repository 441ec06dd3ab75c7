-- The data that storetest.Migrated expects.

INSERT INTO collections (name) VALUES ('toys');

INSERT INTO user_collections (user_id, collection_id, modified, count, total_bytes) VALUES
	(7, 0, 1700000000150, 1, 0),
	(7, 7, 1700000000110, 2, 6),
	(7, 100, 1700000000120, 2, 4),
	(8, 0, 1700000000100, 0, 0),
	(8, 9, 1700000000100, 1, 5);

INSERT INTO bsos (user_id, collection_id, bso_id, sortindex, modified, expiry, payload) VALUES
	(7, 7, 'a', 5, 1700000000100, NULL, x'00ff27'),
	(7, 7, '..', NULL, 1700000000110, NULL, CAST('two' AS BLOB)),
	(7, 100, 'forever', NULL, 1700000000120, NULL, x''),
	(7, 100, 'mortal', -999999999, 1700000000120, 1700003600120, CAST('dies' AS BLOB)),
	(8, 9, 'x', NULL, 1700000000100, NULL, CAST('other' AS BLOB));

INSERT INTO batches (user_id, collection_id, batch_id, expiry, count, total_bytes) VALUES
	(7, 7, '0123456789abcdef0123456789abcdef', 1700007200130, 2, 8);

INSERT INTO batch_bsos (user_id, collection_id, batch_id, batch_bso_id, sortindex, ttl, payload) VALUES
	(7, 7, '0123456789abcdef0123456789abcdef', 'a', NULL, NULL, CAST('new' AS BLOB)),
	(7, 7, '0123456789abcdef0123456789abcdef', 'c', 1, NULL, CAST('three' AS BLOB));
