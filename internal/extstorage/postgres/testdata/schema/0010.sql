INSERT INTO ext_storage_usage (tenant_id, extension_install_id, bytes_used, keys_count, namespaces_count, updated_at, change_seq) VALUES
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 24, 2, 2, '2023-11-14 22:13:20.005Z', 5);
INSERT INTO ext_storage_namespaces (tenant_id, extension_install_id, namespace, keys_count) VALUES
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 'settings', 1),
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 'log', 1);
INSERT INTO ext_storage_records (tenant_id, extension_install_id, namespace, key, revision, value, metadata,
	ttl_expires_at, created_at, updated_at, value_bytes, metadata_bytes, change_seq) VALUES
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 'settings', 'a', 2, '{"n": [2, "ü"]}', '{"m": 1}',
		NULL, '2023-11-14 22:13:20.001Z', '2023-11-14 22:13:20.002Z', 14, 7, 2),
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 'log', 'dies', 1, '1', '{}',
		'2023-11-14 23:13:20.003Z', '2023-11-14 22:13:20.003Z', '2023-11-14 22:13:20.003Z', 1, 2, 3);
INSERT INTO ext_storage_changes (tenant_id, extension_install_id, seq, op, namespace, key, revision, at) VALUES
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 1, 'put', 'settings', 'a', 1, '2023-11-14 22:13:20.001Z'),
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 2, 'put', 'settings', 'a', 2, '2023-11-14 22:13:20.002Z'),
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 3, 'put', 'log', 'dies', 1, '2023-11-14 22:13:20.003Z'),
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 4, 'put', 'log', 'gone', 1, '2023-11-14 22:13:20.004Z'),
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 5, 'delete', 'log', 'gone', 1, '2023-11-14 22:13:20.005Z');
INSERT INTO ext_storage_answers (tenant_id, extension_install_id, once_key, request, answer, at) VALUES
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 'once',
		'\x0000000000000000000000000000000000000000000000000000000000000001',
		'[{"revision":1,"seq":3,"created":true,"createdAt":1700000000003,"updatedAt":1700000000003,"expiresAt":1700003600003}]', '2023-11-14 22:13:20.003Z');
INSERT INTO ext_storage_schemas (tenant_id, extension_install_id, namespace, schema_version, schema_document, status, created_at, updated_at, created_by) VALUES
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 'settings', 1, 'true', 'deprecated',
		'2023-11-14 22:13:20.006Z', '2023-11-14 22:13:20.009Z', NULL),
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 'settings', 2, '{"type": "object"}', 'active',
		'2023-11-14 22:13:20.008Z', '2023-11-14 22:13:20.009Z', 'c0000000-0000-4000-8000-000000000001');
INSERT INTO ext_storage_installs (tenant_id, extension_install_id, tier, overrides, override_until, namespaces, revoked_at, created_at, updated_at) VALUES
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 'big', '{"keys": 70}', '2023-11-15 22:13:20.010Z',
		'{"settings": "rw", "log": "r"}', NULL, '2023-11-14 22:13:20.010Z', '2023-11-14 22:13:20.011Z');
INSERT INTO ext_storage_outbox (tenant_id, extension_install_id, seq, topic, key, payload, created_at) VALUES
	('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 5, 'extstorage.delete', 'log/gone',
		'{"operation":"delete","namespace":"log","key":"gone","schemaVersion":0,"caller":"token","callerId":"7","revision":1}',
		'2023-11-14 22:13:20.005Z');
