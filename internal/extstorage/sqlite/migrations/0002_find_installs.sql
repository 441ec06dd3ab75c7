-- An install is found by the beginning of its ID, without its tenant.
CREATE INDEX ext_storage_usage_install_idx ON ext_storage_usage (extension_install_id, tenant_id);
CREATE INDEX ext_storage_installs_install_idx ON ext_storage_installs (extension_install_id, tenant_id);
