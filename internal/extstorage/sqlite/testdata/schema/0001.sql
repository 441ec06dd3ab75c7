-- What storetest.Migrated looks for, as it stands in the tables.

INSERT INTO ext_storage_records (tenant_id, extension_install_id, namespace, key, revision, change_seq,
	created_at, updated_at, ttl_expires_at, value_bytes, metadata_bytes, metadata, value) VALUES
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000070', 'settings', 'a', 2, 2,
		1700000000100, 1700000000110, NULL, 35, 10, '{"m":"é"}', '{"a":1,"bb":[1.5,9007199254740993]}'),
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000070', 'settings', 'é', 1, 3,
		1700000000120, 1700000000120, 1700000060120, 4, 2, '{}', 'null'),
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000070', 'log', 'c', 1, 6,
		1700000000150, 1700000000150, NULL, 2, 2, '{}', '[]'),
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000071', 'settings', 'a', 1, 1,
		1700000000100, 1700000000100, NULL, 7, 2, '{}', '"other"');

INSERT INTO ext_storage_usage (tenant_id, extension_install_id, bytes_used, keys_count, namespaces_count, updated_at, change_seq) VALUES
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000070', 55, 3, 2, 1700000000150, 6),
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000071', 9, 1, 1, 1700000000100, 1);

INSERT INTO ext_storage_namespaces (tenant_id, extension_install_id, namespace, keys_count) VALUES
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000070', 'settings', 2),
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000070', 'log', 1),
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000071', 'settings', 1);

INSERT INTO ext_storage_changes (tenant_id, extension_install_id, seq, op, namespace, key, revision, at) VALUES
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000070', 1, 'put', 'settings', 'a', 1, 1700000000100),
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000070', 2, 'put', 'settings', 'a', 2, 1700000000110),
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000070', 3, 'put', 'settings', 'é', 1, 1700000000120),
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000070', 4, 'put', 'log', 'b', 1, 1700000000130),
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000070', 5, 'delete', 'log', 'b', 1, 1700000000140),
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000070', 6, 'put', 'log', 'c', 1, 1700000000150),
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000071', 1, 'put', 'settings', 'a', 1, 1700000000100);

INSERT INTO ext_storage_answers (tenant_id, extension_install_id, once_key, request, answer, at) VALUES
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000070', 'again',
		x'0707070707070707070707070707070707070707070707070707070707070707',
		'[55,3,2,1,6,1,0,1700000000150,1700000000150,0]', 1700000000150);

INSERT INTO ext_storage_schemas (tenant_id, extension_install_id, namespace, schema_version, status, created_at, updated_at, created_by, schema_document) VALUES
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000070', 'settings', 1, 'deprecated', 1700000000160, 1700000000160, NULL, '{}'),
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000070', 'settings', 2, 'active', 1700000000160, 1700000000160,
		'00000000-0000-4000-8000-000000000009', '{"type":"object"}'),
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000070', 'settings', 3, 'draft', 1700000000160, 1700000000160, NULL, 'true');

INSERT INTO ext_storage_installs (tenant_id, extension_install_id, tier, overrides, override_until, namespaces, revoked_at, created_at, updated_at) VALUES
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000070', 'gold', '{"bytes":1000,"namespaces":0,"keys":7}', 1700086400170,
		'{"log":"r","settings":"rw"}', NULL, 1700000000170, 1700000000170);

INSERT INTO ext_storage_outbox (tenant_id, extension_install_id, seq, topic, key, payload, created_at) VALUES
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000070', 5, 'extstorage.delete', 'log/b',
		'{"operation":"delete","namespace":"log","key":"b","schemaVersion":0,"caller":"token","callerId":"7","revision":1}', 1700000000140000),
	('00000000-0000-4000-8000-000000000007', '00000000-0000-4000-8000-000000000070', 6, 'extstorage.put', 'log/c',
		'{"operation":"put","namespace":"log","key":"c","schemaVersion":0,"caller":"token","callerId":"7","revision":1}', 1700000000150000);
