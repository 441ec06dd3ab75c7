-- The data that storetest.Migrated expects.

INSERT INTO ext_storage_usage (tenant_id, extension_install_id, bytes_used, keys_count, namespaces_count, updated_at, change_seq) VALUES
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 24, 2, 2, 1700000000005, 5);

INSERT INTO ext_storage_namespaces (tenant_id, extension_install_id, namespace, keys_count) VALUES
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 'settings', 1),
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 'log', 1);

INSERT INTO ext_storage_records (tenant_id, extension_install_id, namespace, key, revision, change_seq,
	created_at, updated_at, ttl_expires_at, value_bytes, metadata_bytes, metadata, value) VALUES
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 'settings', 'a', 2, 2,
		1700000000001, 1700000000002, NULL, 14, 7, '{"m":1}', '{"n":[2,"ü"]}'),
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 'log', 'dies', 1, 3,
		1700000000003, 1700000000003, 1700003600003, 1, 2, '{}', '1');

INSERT INTO ext_storage_changes (tenant_id, extension_install_id, seq, op, namespace, key, revision, at) VALUES
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 1, 'put', 'settings', 'a', 1, 1700000000001),
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 2, 'put', 'settings', 'a', 2, 1700000000002),
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 3, 'put', 'log', 'dies', 1, 1700000000003),
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 4, 'put', 'log', 'gone', 1, 1700000000004),
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 5, 'delete', 'log', 'gone', 1, 1700000000005);

INSERT INTO ext_storage_answers (tenant_id, extension_install_id, once_key, request, answer, at) VALUES
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 'once',
		x'0000000000000000000000000000000000000000000000000000000000000001',
		'[{"revision":1,"seq":3,"created":true,"createdAt":1700000000003,"updatedAt":1700000000003,"expiresAt":1700003600003}]', 1700000000003);

INSERT INTO ext_storage_schemas (tenant_id, extension_install_id, namespace, schema_version, status, created_at, updated_at, created_by, schema_document) VALUES
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 'settings', 1, 'deprecated',
		1700000000006, 1700000000009, NULL, 'true'),
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 'settings', 2, 'active',
		1700000000008, 1700000000009, 'c0000000-0000-4000-8000-000000000001', '{"type":"object"}');

INSERT INTO ext_storage_installs (tenant_id, extension_install_id, tier, overrides, override_until, namespaces, revoked_at, created_at, updated_at) VALUES
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 'big', '{"bytes":0,"namespaces":0,"keys":70}', 1700086400010,
		'{"log":"r","settings":"rw"}', NULL, 1700000000010, 1700000000011);

INSERT INTO ext_storage_outbox (tenant_id, extension_install_id, seq, topic, key, payload, created_at, part) VALUES
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 5, 'extstorage.delete', 'log/gone',
		'{"operation":"delete","namespace":"log","key":"gone","schemaVersion":0,"caller":"token","callerId":"7","revision":1}', 1700000000005000, 2);
