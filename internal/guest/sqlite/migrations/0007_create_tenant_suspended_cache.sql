-- A reinstated tenant keeps its row, so older events for it have no effect.
CREATE TABLE bff_consumer_tenant_suspended_cache (
	tenant_id     TEXT    NOT NULL PRIMARY KEY,
	suspended     INTEGER NOT NULL CHECK (suspended IN (0, 1)),
	suspended_at  INTEGER NOT NULL,
	reason        TEXT    NOT NULL,
	last_event_at INTEGER NOT NULL,
	last_event_id TEXT    NOT NULL,
	refreshed_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
