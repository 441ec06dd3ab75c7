-- The salted slow hash of each secret that the data of a service depends on.
CREATE TABLE IF NOT EXISTS secret_hashes (
	service     STRING(64)  NOT NULL,
	setting     STRING(128) NOT NULL,
	hashed      STRING(256) NOT NULL,
	recorded_at TIMESTAMP   NOT NULL
) PRIMARY KEY (service, setting);
