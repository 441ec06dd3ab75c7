-- An install is found by the beginning of its ID, without its tenant. The planner would prefer an index on the ID itself to the
-- primary key, also for statements of one install, although it is no better.
CREATE INDEX ext_storage_usage_install_idx ON ext_storage_usage ((extension_install_id::text) COLLATE "C", tenant_id);
CREATE INDEX ext_storage_installs_install_idx ON ext_storage_installs ((extension_install_id::text) COLLATE "C", tenant_id);
