-- Finds an install by the start of its ID, without a tenant. With an index on the ID itself, the planner would prefer it
-- to the primary key, with no benefit, even for statements on one install.
CREATE INDEX ext_storage_usage_install_idx ON ext_storage_usage ((extension_install_id::text) COLLATE "C", tenant_id);
CREATE INDEX ext_storage_installs_install_idx ON ext_storage_installs ((extension_install_id::text) COLLATE "C", tenant_id);
