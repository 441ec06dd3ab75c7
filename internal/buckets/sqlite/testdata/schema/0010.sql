INSERT INTO manta_bucket_account (id, name, created, max_objects, max_bytes) VALUES ('a0000000-0000-4000-8000-000000000001', 'main', 1700000000000001, 5, 1000);
INSERT INTO manta_bucket_key (id, account, secret, created, revoked) VALUES
	('KEY', 'a0000000-0000-4000-8000-000000000001', x'73', 1700000000000002, 1700000000000003);
INSERT INTO manta_bucket_node (id, url, state, added) VALUES ('east:1', 'file:///srv', 'active', 1700000000000004);
INSERT INTO manta_bucket (id, name, owner, created) VALUES
	('b0000000-0000-4000-8000-000000000001', 'photos', 'a0000000-0000-4000-8000-000000000001', 1700000000000005);
INSERT INTO manta_bucket_settings (owner, bucket_id, settings) VALUES
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', '{"public_read":true}');
INSERT INTO manta_bucket_object (id, name, owner, bucket_id, created, modified, creator, content_length, content_md5, content_type,
	headers, roles, sharks, properties, body) VALUES
	('c0000000-0000-4000-8000-000000000001', 'a', 'a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001',
		1700000000000006, 1700000000000007, 'a0000000-0000-4000-8000-000000000002', 3, x'900150983cd24fb0d6963f7d28e17f72', 'text/plain',
		'{"m-a":"ü"}', '["f0000000-0000-4000-8000-000000000001"]', NULL, '{"own":1,"s3":{"tags":{"t":"v"}}}', x'616263'),
	('c0000000-0000-4000-8000-000000000002', 'b', 'a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001',
		1700000000000008, 1700000000000008, NULL, 10, x'00000000000000000000000000000002', '', NULL, NULL, '["east:1"]', NULL, NULL),
	('c0000000-0000-4000-8000-000000000003', 'c', 'a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001',
		1700000000000009, 1700000000000009, NULL, 20, NULL, '', NULL, NULL, NULL,
		'{"s3":{"etag":"00000000000000000000000000000009-1","upload":"e0000000-0000-4000-8000-000000000001","parts":1}}', NULL);
INSERT INTO manta_bucket_upload (id, name, owner, bucket_id, created, creator, content_type, headers, roles, properties) VALUES
	('e0000000-0000-4000-8000-000000000002', 'd', 'a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001',
		1700000000000010, NULL, '', NULL, NULL, NULL);
INSERT INTO manta_bucket_part (owner, upload_id, number, bucket_id, name, id, created, content_length, content_md5, checksum, sharks, start, body) VALUES
	('a0000000-0000-4000-8000-000000000001', 'e0000000-0000-4000-8000-000000000001', 1, 'b0000000-0000-4000-8000-000000000001', 'c',
		'd0000000-0000-4000-8000-000000000001', 1700000000000009, 20, x'00000000000000000000000000000003', NULL, '["east:1"]', 0, NULL),
	('a0000000-0000-4000-8000-000000000001', 'e0000000-0000-4000-8000-000000000002', 1, 'b0000000-0000-4000-8000-000000000001', 'd',
		'd0000000-0000-4000-8000-000000000002', 1700000000000010, 5, x'00000000000000000000000000000004', NULL, '["east:1"]', NULL, NULL);
INSERT INTO manta_bucket_deleted_object (id, name, owner, bucket_id, created, modified, content_length, content_md5, content_type, sharks, deleted_at) VALUES
	('c0000000-0000-4000-8000-000000000004', 'a', 'a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001',
		1700000000000011, 1700000000000011, 7, x'00000000000000000000000000000005', '', '["east:1"]', 1700000000000012);
INSERT INTO manta_bucket_deleted_bucket (id, name, owner, created, deleted_at) VALUES
	('b0000000-0000-4000-8000-000000000002', 'gone', 'a0000000-0000-4000-8000-000000000001', 1700000000000013, 1700000000000014);
INSERT INTO manta_bucket_usage (owner, bucket_id, objects, bytes, max_objects, max_bytes) VALUES
	('a0000000-0000-4000-8000-000000000001', '00000000-0000-0000-0000-000000000000', 3, 38, 5, 1000),
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 3, 38, 0, 0);
UPDATE manta_bucket_object SET content_crc32c = 4294967295 WHERE name = 'b';
INSERT INTO manta_bucket_damage (node, path, problem, state, first_seen, last_seen, attempts, next_attempt, error, owner, bucket_id, id, name, upload_id, number) VALUES
	('east:1', 'v2/x', 'corrupt', 'lost', 1700000000000015, 1700000000000016, 1, 1700000000000017, 'no good copy', '', '', '', 'b', '', 0);
INSERT INTO manta_bucket_scrub (node, began, position, done, copies, bytes, found, total, ended) VALUES ('east:1', 1700000000000018, 'v2/x', 0, 1, 2, 3, 4, 0);
INSERT INTO manta_bucket_name (name, owner, claimed, freed) VALUES ('photos', 'a0000000-0000-4000-8000-000000000001', 1700000000000005, NULL);
