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
