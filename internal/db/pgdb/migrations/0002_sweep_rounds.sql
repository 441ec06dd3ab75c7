-- When the latest round of each sweep began, in whichever process.
CREATE TABLE sweep_rounds (
	job      TEXT        NOT NULL PRIMARY KEY,
	begun_at TIMESTAMPTZ NOT NULL
);
