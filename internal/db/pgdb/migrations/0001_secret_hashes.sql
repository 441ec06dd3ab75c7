-- The salted slow hash of each secret that the data of a service depends on.
CREATE TABLE secret_hashes (
	service     TEXT      NOT NULL,
	setting     TEXT      NOT NULL,
	hashed      TEXT      NOT NULL,
	recorded_at TIMESTAMP NOT NULL DEFAULT (now() AT TIME ZONE 'UTC'),
	PRIMARY KEY (service, setting)
);
