// Package all lists the external systems of this release. Only cmd/holdfast and tests import it, because it links every
// driver.
package all

import (
	"holdfast/internal/engines"
	"holdfast/internal/engines/cloud"
	"holdfast/internal/engines/nats"
	"holdfast/internal/engines/otlp"
	"holdfast/internal/engines/postgres"
	"holdfast/internal/engines/pubsub"
	"holdfast/internal/engines/spanner"
)

// Engines returns the external systems that services and the server can use besides SQLite and folders.
func Engines() []engines.Engine {
	return []engines.Engine{postgres.Engine(), spanner.Engine(), nats.Engine(), pubsub.Engine(), cloud.Engine(), otlp.Engine()}
}
