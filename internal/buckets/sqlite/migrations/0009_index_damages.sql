-- Counts damaged copies per node. A lost disk leaves millions.
CREATE INDEX manta_bucket_damage_state_idx ON manta_bucket_damage (node, state, first_seen);
