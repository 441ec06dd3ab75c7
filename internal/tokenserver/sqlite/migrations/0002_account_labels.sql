-- Account display names, found by a prefix of the key, which is the name in lower case.

CREATE TABLE account_labels (
	fxa_uid   VARCHAR(255) PRIMARY KEY,
	label     TEXT        NOT NULL,
	label_key TEXT        NOT NULL,
	source    VARCHAR(8)  NOT NULL, -- operator or profile
	set_at    BIGINT      NOT NULL
) WITHOUT ROWID;

CREATE INDEX account_labels_key_idx ON account_labels (label_key, fxa_uid);
