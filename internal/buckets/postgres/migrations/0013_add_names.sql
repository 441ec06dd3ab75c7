-- The bucket that is found by its name alone: the first with this name that was made public or shared.
CREATE TABLE manta_bucket_name (
	name    text COLLATE "C" PRIMARY KEY,
	owner   uuid NOT NULL,
	claimed timestamptz NOT NULL,
	freed   timestamptz -- NULL while the bucket is public or shared; afterwards the name rests
);

-- Finds the names that rest, of all accounts and of one.
CREATE INDEX manta_bucket_name_freed_idx ON manta_bucket_name (freed) WHERE freed IS NOT NULL;
CREATE INDEX manta_bucket_name_owner_idx ON manta_bucket_name (owner, freed) WHERE freed IS NOT NULL;

-- Policies say whether they share the bucket. SQL cannot evaluate them, so each policy that allows anything counts.
UPDATE manta_bucket_settings SET settings = jsonb_set(settings, '{policy,shared}', 'true')
	WHERE settings #>> '{policy,document}' LIKE '%Allow%';

-- Buckets that are public or shared already claim their names in the order in which they were created.
INSERT INTO manta_bucket_name (name, owner, claimed)
	SELECT DISTINCT ON (b.name) b.name, b.owner, b.created FROM manta_bucket b JOIN manta_bucket_settings s ON s.owner = b.owner AND s.bucket_id = b.id
	WHERE (s.settings -> 'public_read' = 'true' AND coalesce(s.settings #> '{public_access_block,ignore_acls}', 'false') = 'false')
		OR s.settings #> '{policy,shared}' = 'true'
	ORDER BY b.name, b.created, b.owner;

-- citus

-- Every node has all names: a request reads one, and a change of a bucket's access writes one.
SELECT create_reference_table('manta_bucket_name');
