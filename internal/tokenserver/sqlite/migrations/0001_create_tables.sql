-- Operators' scripts read the tables services, nodes and users with SELECT * and unpack columns by position, so names
-- and order are fixed. IF NOT EXISTS adopts another server's tables.

CREATE TABLE IF NOT EXISTS services (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	service VARCHAR(30) UNIQUE,
	pattern VARCHAR(128)
);

INSERT INTO services (service, pattern) VALUES ('sync-1.5', '{node}/1.5/{uid}') ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS nodes (
	id           INTEGER PRIMARY KEY AUTOINCREMENT,
	service      INTEGER     NOT NULL,
	node         VARCHAR(64) NOT NULL,
	available    INTEGER     NOT NULL,
	current_load INTEGER     NOT NULL,
	capacity     INTEGER     NOT NULL,
	downed       INTEGER     NOT NULL,
	backoff      INTEGER     NOT NULL,
	UNIQUE (service, node)
);

-- AUTOINCREMENT, because a uid names a user's storage and must never be reused.
CREATE TABLE IF NOT EXISTS users (
	uid             INTEGER PRIMARY KEY AUTOINCREMENT,
	service         INTEGER      NOT NULL,
	email           VARCHAR(255) NOT NULL,
	generation      BIGINT       NOT NULL,
	client_state    VARCHAR(32)  NOT NULL,
	created_at      BIGINT       NOT NULL,
	replaced_at     BIGINT,
	nodeid          BIGINT       NOT NULL,
	keys_changed_at BIGINT
);

CREATE INDEX IF NOT EXISTS lookup_idx ON users (email, service, created_at);
CREATE INDEX IF NOT EXISTS replaced_at_idx ON users (service, replaced_at);
CREATE INDEX IF NOT EXISTS node_idx ON users (nodeid);

-- Records that the table nodes has had a row, see EnsureFirstNode.
CREATE TABLE first_node (
	node VARCHAR(64) NOT NULL
);

CREATE TABLE account_access (
	fxa_uid    VARCHAR(255) PRIMARY KEY,
	access     VARCHAR(8)   NOT NULL,
	note       VARCHAR(255) NOT NULL,
	created_at BIGINT       NOT NULL
) WITHOUT ROWID;

CREATE TABLE refused_sign_ins (
	fxa_uid  VARCHAR(255) PRIMARY KEY,
	first_at BIGINT       NOT NULL,
	last_at  BIGINT       NOT NULL,
	attempts BIGINT       NOT NULL
) WITHOUT ROWID;

CREATE INDEX refused_sign_ins_last_at_idx ON refused_sign_ins (last_at);
