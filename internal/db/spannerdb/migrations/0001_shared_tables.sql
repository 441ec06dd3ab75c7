-- The salted slow hash of each secret that the data of a service depends on.
CREATE TABLE IF NOT EXISTS secret_hashes (
	service     STRING(64)  NOT NULL,
	setting     STRING(128) NOT NULL,
	hashed      STRING(256) NOT NULL,
	recorded_at TIMESTAMP   NOT NULL
) PRIMARY KEY (service, setting);

-- The progress of a copy to another database.
CREATE TABLE IF NOT EXISTS copy_state (
	service STRING(64)  NOT NULL,
	state   STRING(MAX) NOT NULL
) PRIMARY KEY (service);

-- The keys of rows that a write has changed during a copy, as JSON.
CREATE TABLE IF NOT EXISTS copy_log (
	id      INT64       NOT NULL,
	service STRING(64)  NOT NULL,
	changes STRING(MAX) NOT NULL
) PRIMARY KEY (id);
