// Package e2e uses the built binary like an operator and a client.
package e2e

import (
	"os"
	"testing"

	"holdfast/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.MainOfWaiting(m, 4)) }
