-- What storetest.Migrated looks for, as it stands in the tables: this schema
-- has no functions yet.

INSERT INTO collections (name) VALUES ('toys');

INSERT INTO user_collections (user_id, collection_id, modified, count, total_bytes) VALUES
	(7, 0, '2023-11-14 22:13:20.15', 1, 0),
	(7, 7, '2023-11-14 22:13:20.11', 2, 6),
	(7, 100, '2023-11-14 22:13:20.12', 2, 4),
	(8, 0, 'epoch', 0, 0),
	(8, 9, '2023-11-14 22:13:20.1', 1, 5);

INSERT INTO bsos (user_id, collection_id, bso_id, sortindex, payload, modified, expiry) VALUES
	(7, 7, 'a', 5, '\x00ff27', '2023-11-14 22:13:20.1', NULL),
	(7, 7, '..', NULL, 'two', '2023-11-14 22:13:20.11', NULL),
	(7, 100, 'forever', NULL, '', '2023-11-14 22:13:20.12', NULL),
	(7, 100, 'mortal', -999999999, 'dies', '2023-11-14 22:13:20.12', '2023-11-14 23:13:20.12'),
	(8, 9, 'x', NULL, 'other', '2023-11-14 22:13:20.1', NULL);

INSERT INTO batches (user_id, collection_id, batch_id, expiry, count, total_bytes) VALUES
	(7, 7, '0123456789abcdef0123456789abcdef', '2023-11-15 00:13:20.13', 2, 8);

INSERT INTO batch_bsos (user_id, collection_id, batch_id, batch_bso_id, sortindex, payload, ttl) VALUES
	(7, 7, '0123456789abcdef0123456789abcdef', 'a', NULL, 'new', NULL),
	(7, 7, '0123456789abcdef0123456789abcdef', 'c', 1, 'three', NULL);
