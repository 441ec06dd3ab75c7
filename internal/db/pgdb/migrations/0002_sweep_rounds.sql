-- Start time of each sweep's latest round in any process.
CREATE TABLE sweep_rounds (
	job      TEXT        NOT NULL PRIMARY KEY,
	begun_at TIMESTAMPTZ NOT NULL
);
