-- Counts the damaged copies of each node, which after the loss of a disk are millions.
CREATE INDEX manta_bucket_damage_state_idx ON manta_bucket_damage (node, state, first_seen);
