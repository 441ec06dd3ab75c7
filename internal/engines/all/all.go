// Package all lists the engines of this release. Only cmd/holdfast and tests import it, because it links every driver.
package all

import (
	"holdfast/internal/engines"
	"holdfast/internal/engines/postgres"
	"holdfast/internal/engines/spanner"
)

// Engines returns the database servers that services support.
func Engines() []engines.Engine { return []engines.Engine{postgres.Engine(), spanner.Engine()} }
