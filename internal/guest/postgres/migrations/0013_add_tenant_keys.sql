-- Ed25519 keys belong to a tenant. Keys without a tenant are HMAC keys.
ALTER TABLE bff_consumer.handoff_keys ADD COLUMN tenant_id text COLLATE "C" NOT NULL DEFAULT '';

DROP INDEX bff_consumer.ix_handoff_keys_active;

CREATE UNIQUE INDEX ix_handoff_keys_active ON bff_consumer.handoff_keys (tenant_id) WHERE state = 'active';

CREATE INDEX ix_handoff_keys_tenant ON bff_consumer.handoff_keys (tenant_id, id);
