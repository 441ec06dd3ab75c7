-- Salted slow hashes of secrets that stored data depends on.
CREATE TABLE IF NOT EXISTS secret_hashes (
	service     STRING(64)  NOT NULL,
	setting     STRING(128) NOT NULL,
	hashed      STRING(256) NOT NULL,
	recorded_at TIMESTAMP   NOT NULL
) PRIMARY KEY (service, setting);

-- Progress of a copy to another database.
CREATE TABLE IF NOT EXISTS copy_state (
	service STRING(64)  NOT NULL,
	state   STRING(MAX) NOT NULL
) PRIMARY KEY (service);

-- Keys of rows that a write changed during a copy, as JSON.
CREATE TABLE IF NOT EXISTS copy_log (
	id      INT64       NOT NULL,
	service STRING(64)  NOT NULL,
	changes STRING(MAX) NOT NULL
) PRIMARY KEY (id);
