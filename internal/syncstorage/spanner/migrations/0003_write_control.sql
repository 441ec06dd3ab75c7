-- Whether the service is read-only, and whether its writes are logged for a copy. Each
-- write reads one of the rows, by a hash of its user, and locks it: with a single row,
-- writes would wait for each other. Without rows it is neither.
CREATE TABLE IF NOT EXISTS write_control (
	service         STRING(64) NOT NULL,
	shard           INT64      NOT NULL,
	holder          STRING(128),
	read_only_until TIMESTAMP,
	log_until       TIMESTAMP
) PRIMARY KEY (service, shard);
