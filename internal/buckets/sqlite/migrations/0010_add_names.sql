-- The bucket that is found by its name alone: the first with this name that was made public or shared.
CREATE TABLE manta_bucket_name (
	name TEXT PRIMARY KEY,
	owner TEXT NOT NULL,
	claimed INTEGER NOT NULL,
	freed INTEGER -- NULL while the bucket is public or shared; afterwards the name rests
) WITHOUT ROWID;

-- Finds the names that rest, of all accounts and of one.
CREATE INDEX manta_bucket_name_freed_idx ON manta_bucket_name (freed) WHERE freed IS NOT NULL;
CREATE INDEX manta_bucket_name_owner_idx ON manta_bucket_name (owner, freed) WHERE freed IS NOT NULL;

-- Policies say whether they share the bucket. SQL cannot evaluate them, so each policy that allows anything counts.
UPDATE manta_bucket_settings SET settings = json_set(settings, '$.policy.shared', json('true'))
	WHERE json_extract(settings, '$.policy.document') LIKE '%Allow%';

-- Buckets that are public or shared already claim their names in the order in which they were created.
INSERT INTO manta_bucket_name (name, owner, claimed)
	SELECT b.name, b.owner, b.created FROM manta_bucket b JOIN manta_bucket_settings s ON s.owner = b.owner AND s.bucket_id = b.id
	WHERE (json_extract(s.settings, '$.public_read') = 1 AND coalesce(json_extract(s.settings, '$.public_access_block.ignore_acls'), 0) = 0)
		OR json_extract(s.settings, '$.policy.shared') = 1
	ORDER BY b.created, b.owner
	ON CONFLICT (name) DO NOTHING;
