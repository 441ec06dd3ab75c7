INSERT INTO manta_bucket_account (id, name, created, max_objects, max_bytes) VALUES ('a0000000-0000-4000-8000-000000000001', 'main', '2023-11-14 22:13:20.000001Z', 5, 1000);
INSERT INTO manta_bucket_key (id, account, secret, created, revoked) VALUES
	('KEY', 'a0000000-0000-4000-8000-000000000001', '\x73', '2023-11-14 22:13:20.000002Z', '2023-11-14 22:13:20.000003Z');
INSERT INTO manta_bucket_node (id, url, state, added) VALUES ('east:1', 'file:///srv', 'active', '2023-11-14 22:13:20.000004Z');
INSERT INTO manta_bucket (id, name, owner, created) VALUES
	('b0000000-0000-4000-8000-000000000001', 'photos', 'a0000000-0000-4000-8000-000000000001', '2023-11-14 22:13:20.000005Z');
INSERT INTO manta_bucket_settings (owner, bucket_id, settings) VALUES
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', '{"public_read":true}');
INSERT INTO manta_bucket_object (id, name, owner, bucket_id, created, modified, creator, content_length, content_md5, content_type,
	headers, roles, sharks, properties, body) VALUES
	('c0000000-0000-4000-8000-000000000001', 'a', 'a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001',
		'2023-11-14 22:13:20.000006Z', '2023-11-14 22:13:20.000007Z', 'a0000000-0000-4000-8000-000000000002', 3, '\x900150983cd24fb0d6963f7d28e17f72', 'text/plain',
		'm-a=>ü', '{f0000000-0000-4000-8000-000000000001}', NULL, '{"own":1,"s3":{"tags":{"t":"v"}}}', '\x616263'),
	('c0000000-0000-4000-8000-000000000002', 'b', 'a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001',
		'2023-11-14 22:13:20.000008Z', '2023-11-14 22:13:20.000008Z', NULL, 10, '\x00000000000000000000000000000002', '', NULL, NULL, '{east:1}', NULL, NULL),
	('c0000000-0000-4000-8000-000000000003', 'c', 'a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001',
		'2023-11-14 22:13:20.000009Z', '2023-11-14 22:13:20.000009Z', NULL, 20, NULL, '', NULL, NULL, NULL,
		'{"s3":{"etag":"00000000000000000000000000000009-1","upload":"e0000000-0000-4000-8000-000000000001","parts":1}}', NULL);
INSERT INTO manta_bucket_upload (id, name, owner, bucket_id, created, creator, content_type, headers, roles, properties) VALUES
	('e0000000-0000-4000-8000-000000000002', 'd', 'a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001',
		'2023-11-14 22:13:20.000010Z', NULL, '', NULL, NULL, NULL);
INSERT INTO manta_bucket_part (owner, upload_id, number, bucket_id, name, id, created, content_length, content_md5, checksum, sharks, start, body) VALUES
	('a0000000-0000-4000-8000-000000000001', 'e0000000-0000-4000-8000-000000000001', 1, 'b0000000-0000-4000-8000-000000000001', 'c',
		'd0000000-0000-4000-8000-000000000001', '2023-11-14 22:13:20.000009Z', 20, '\x00000000000000000000000000000003', NULL, '{east:1}', 0, NULL),
	('a0000000-0000-4000-8000-000000000001', 'e0000000-0000-4000-8000-000000000002', 1, 'b0000000-0000-4000-8000-000000000001', 'd',
		'd0000000-0000-4000-8000-000000000002', '2023-11-14 22:13:20.000010Z', 5, '\x00000000000000000000000000000004', NULL, '{east:1}', NULL, NULL);
INSERT INTO manta_bucket_deleted_object (id, name, owner, bucket_id, created, modified, content_length, content_md5, content_type, sharks,
	deleted_at, garbage_id) VALUES
	('c0000000-0000-4000-8000-000000000004', 'a', 'a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001',
		'2023-11-14 22:13:20.000011Z', '2023-11-14 22:13:20.000011Z', 7, '\x00000000000000000000000000000005', '', '{east:1}', '2023-11-14 22:13:20.000012Z',
		'c0000000-0000-4000-8000-00000000000f');
INSERT INTO manta_bucket_deleted_bucket (id, name, owner, created, deleted_at) VALUES
	('b0000000-0000-4000-8000-000000000002', 'gone', 'a0000000-0000-4000-8000-000000000001', '2023-11-14 22:13:20.000013Z', '2023-11-14 22:13:20.000014Z');
INSERT INTO manta_bucket_usage (owner, bucket_id, slot, objects, bytes) VALUES
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 3, 4, 40),
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 7, -1, -2);
INSERT INTO manta_bucket_usage (owner, bucket_id, slot, objects, bytes, max_objects, max_bytes, spare_objects, spare_bytes)
	SELECT 'a0000000-0000-4000-8000-000000000001', '00000000-0000-0000-0000-000000000000', n, CASE n WHEN 3 THEN 3 ELSE 0 END,
		CASE n WHEN 3 THEN 38 ELSE 0 END, 5, 1000, 0, 60 FROM generate_series(0, 15) n;
UPDATE manta_bucket_object SET content_crc32c = 4294967295 WHERE name = 'b';
INSERT INTO manta_bucket_damage (node, path, problem, state, first_seen, last_seen, attempts, next_attempt, error, owner, bucket_id, id, name, upload_id, number) VALUES
	('east:1', 'v2/x', 'corrupt', 'lost', to_timestamp(1700000000) + interval '15 microseconds', to_timestamp(1700000000) + interval '16 microseconds', 1,
		to_timestamp(1700000000) + interval '17 microseconds', 'no good copy', '', '', '', 'b', '', 0);
INSERT INTO manta_bucket_scrub (node, began, position, done, copies, bytes, found, total) VALUES
	('east:1', to_timestamp(1700000000) + interval '18 microseconds', 'v2/x', false, 1, 2, 3, 4);
INSERT INTO manta_bucket_name (name, owner, claimed) VALUES
	('photos', 'a0000000-0000-4000-8000-000000000001', '2023-11-14 22:13:20.000005Z');
