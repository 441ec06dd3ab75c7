-- Finds an install by the start of its ID, without a tenant.
CREATE INDEX ext_storage_usage_install_idx ON ext_storage_usage (extension_install_id, tenant_id);
CREATE INDEX ext_storage_installs_install_idx ON ext_storage_installs (extension_install_id, tenant_id);
