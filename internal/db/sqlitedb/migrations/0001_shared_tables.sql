-- The salted slow hash of each secret that the data of a service depends on.
CREATE TABLE secret_hashes (
	service     TEXT NOT NULL,
	setting     TEXT NOT NULL,
	hashed      TEXT NOT NULL,
	recorded_at TEXT NOT NULL,
	PRIMARY KEY (service, setting)
) STRICT, WITHOUT ROWID;

-- Which services are read-only. Triggers of their tables, which exist only as long as
-- necessary, check it in the transaction of each write. Times are milliseconds since 1970.
CREATE TABLE read_only (
	service TEXT    NOT NULL PRIMARY KEY,
	holder  TEXT    NOT NULL,
	until   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The progress of a copy to another database, and until when its changes are logged.
CREATE TABLE copy_state (
	service   TEXT    NOT NULL PRIMARY KEY,
	state     TEXT    NOT NULL,
	log_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Keys of rows that were changed during a copy, as JSON.
CREATE TABLE copy_log (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	service    TEXT NOT NULL,
	table_name TEXT NOT NULL,
	key        TEXT NOT NULL
) STRICT;
