-- Tokens whose access an operator has ended, until they have expired. The install of
-- those of a tenant's services is the nil UUID.

CREATE TABLE ext_storage_revoked_tokens (
	tenant_id            TEXT    NOT NULL,
	extension_install_id TEXT    NOT NULL,
	token_id             TEXT    NOT NULL, -- its jti
	expires_at           INTEGER NOT NULL,
	revoked_at           INTEGER NOT NULL,
	PRIMARY KEY (tenant_id, extension_install_id, token_id)
) WITHOUT ROWID;

CREATE INDEX ext_storage_revoked_tokens_sweep_idx ON ext_storage_revoked_tokens (expires_at);
