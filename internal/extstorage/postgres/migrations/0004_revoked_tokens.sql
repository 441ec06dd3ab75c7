-- Tokens whose access an operator has ended, until they have expired. The install of
-- those of a tenant's services is the nil UUID.

CREATE TABLE ext_storage_revoked_tokens (
	tenant_id            UUID        NOT NULL,
	extension_install_id UUID        NOT NULL,
	token_id             TEXT        COLLATE "C" NOT NULL, -- its jti
	expires_at           TIMESTAMPTZ NOT NULL,
	revoked_at           TIMESTAMPTZ NOT NULL,
	PRIMARY KEY (tenant_id, extension_install_id, token_id)
);
CREATE INDEX ext_storage_revoked_tokens_sweep_idx ON ext_storage_revoked_tokens (expires_at);

-- citus

SELECT create_distributed_table('ext_storage_revoked_tokens', 'tenant_id', colocate_with => 'ext_storage_records');
