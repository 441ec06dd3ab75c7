package syncstorage

// Inspection lists how a backend's tables differ from its migrations. Only a backend on tables that an older release of
// Mozilla's server created has something to inspect.
type Inspection struct {
	// Indexes lists secondary indexes on user tables. Package budget does not count their mutations, so Spanner may
	// reject a large commit.
	Indexes []string
	// Unswept lists tables without a row deletion policy, whose expired rows stay.
	Unswept []string
}
