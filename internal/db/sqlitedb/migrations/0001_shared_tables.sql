-- Salted slow hashes of secrets that stored data depends on.
CREATE TABLE secret_hashes (
	service     TEXT NOT NULL,
	setting     TEXT NOT NULL,
	hashed      TEXT NOT NULL,
	recorded_at TEXT NOT NULL,
	PRIMARY KEY (service, setting)
) STRICT, WITHOUT ROWID;

-- Read-only services. While a service is read-only, triggers on its tables check this in each write's transaction. Times
-- are milliseconds since 1970.
CREATE TABLE read_only (
	service TEXT    NOT NULL PRIMARY KEY,
	holder  TEXT    NOT NULL,
	until   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Progress of a copy to another database, and how long its changes are logged.
CREATE TABLE copy_state (
	service   TEXT    NOT NULL PRIMARY KEY,
	state     TEXT    NOT NULL,
	log_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Keys of rows changed during a copy, as JSON.
CREATE TABLE copy_log (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	service    TEXT NOT NULL,
	table_name TEXT NOT NULL,
	key        TEXT NOT NULL
) STRICT;
