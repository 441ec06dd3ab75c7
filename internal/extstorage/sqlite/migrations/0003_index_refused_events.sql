-- Keeps the relay from reading events that were set aside.
CREATE INDEX ext_storage_outbox_refused_next_idx ON ext_storage_outbox_refused (tenant_id, extension_install_id, seq) WHERE next_at IS NOT NULL;
