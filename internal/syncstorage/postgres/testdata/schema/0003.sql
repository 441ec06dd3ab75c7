-- What storetest.Migrated looks for: this schema can put and post.

INSERT INTO collections (name) VALUES ('toys');

SELECT sync_put_v1(8, 9, 'x', NULL, 'other', NULL, '2023-11-14 22:13:20.1', NULL, NULL, 0, 0, false);
SELECT sync_put_v1(7, 7, 'a', 5, '\x00ff27', NULL, '2023-11-14 22:13:20.1', NULL, NULL, 0, 0, false);
SELECT sync_put_v1(7, 7, '..', NULL, 'two', NULL, '2023-11-14 22:13:20.11', NULL, NULL, 0, 0, false);
SELECT sync_post_v1(7, 100, '{forever,mortal}', '{NULL,-999999999}', '{"",dies}', '{NULL,3600}', '{0,4}',
	'2023-11-14 22:13:20.12', NULL, NULL, 0, 0, false);

INSERT INTO batches (user_id, collection_id, batch_id, expiry, count, total_bytes) VALUES
	(7, 7, '0123456789abcdef0123456789abcdef', '2023-11-15 00:13:20.13', 2, 8);

INSERT INTO batch_bsos (user_id, collection_id, batch_id, batch_bso_id, sortindex, payload, ttl) VALUES
	(7, 7, '0123456789abcdef0123456789abcdef', 'a', NULL, 'new', NULL),
	(7, 7, '0123456789abcdef0123456789abcdef', 'c', 1, 'three', NULL);

UPDATE user_collections SET modified = '2023-11-14 22:13:20.15', count = 1 WHERE user_id = 7 AND collection_id = 0;
