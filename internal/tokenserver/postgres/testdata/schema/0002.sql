-- The data that storetest.Migrated expects.

INSERT INTO nodes (service, node, available, current_load, capacity, downed, backoff) VALUES
	((SELECT id FROM services WHERE service = 'sync-1.5'), 'https://one.example', 5, 2, 10, 0, 0),
	((SELECT id FROM services WHERE service = 'sync-1.5'), 'https://two.example', 0, 7, 7, 1, 1);

INSERT INTO first_node (node) VALUES ('https://one.example');

INSERT INTO users (service, email, generation, client_state, created_at, replaced_at, nodeid, keys_changed_at) VALUES
	((SELECT id FROM services WHERE service = 'sync-1.5'), 'alice@accounts.example', 7, 'aa', 1795262399000, 1795262400000, 1, NULL),
	((SELECT id FROM services WHERE service = 'sync-1.5'), 'alice@accounts.example', 8, 'bb', 1795262400000, NULL, 1, 8),
	((SELECT id FROM services WHERE service = 'sync-1.5'), 'bob@accounts.example', 9223372036854775807, 'cc', 1795262399000, 1795262400001, 1, 5);

INSERT INTO account_access (fxa_uid, access, note, created_at) VALUES ('carol', 'deny', 'it''s over', 1795262400000);

INSERT INTO refused_sign_ins (fxa_uid, first_at, last_at, attempts) VALUES ('dave', 1795262400000, 1795262400001, 2);

INSERT INTO account_labels (fxa_uid, label, label_key, source, set_at) VALUES ('alice', 'Alice', 'alice', 'operator', 1795262400000);
