-- Salted slow hashes of secrets that stored data depends on.
CREATE TABLE secret_hashes (
	service     TEXT      NOT NULL,
	setting     TEXT      NOT NULL,
	hashed      TEXT      NOT NULL,
	recorded_at TIMESTAMP NOT NULL DEFAULT (now() AT TIME ZONE 'UTC'),
	PRIMARY KEY (service, setting)
);

-- Read-only services. While a service is read-only, triggers on its tables check this in each write's transaction.
CREATE TABLE read_only (
	service TEXT        NOT NULL PRIMARY KEY,
	holder  TEXT        NOT NULL,
	until   TIMESTAMPTZ NOT NULL
);

-- Progress of a copy to another database, and how long its changes are logged.
CREATE TABLE copy_state (
	service   TEXT        NOT NULL PRIMARY KEY,
	state     TEXT        NOT NULL,
	log_until TIMESTAMPTZ NOT NULL
);

-- Keys of rows changed during a copy, as JSON.
CREATE TABLE copy_log (
	id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	service    TEXT NOT NULL,
	table_name TEXT NOT NULL,
	key        TEXT NOT NULL
);
