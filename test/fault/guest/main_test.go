package guest

import (
	"os"
	"testing"

	"holdfast/test/binary"
)

// TestMain lets `make test` run a kill test, and `make check` the others.
func TestMain(m *testing.M) {
	binary.Select("TestGuestKill")
	os.Exit(binary.MainOfWaiting(m, 8))
}
