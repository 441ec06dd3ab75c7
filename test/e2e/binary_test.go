// Package e2e drives the built binary from outside, as an operator and a
// client would.
package e2e

import (
	"os"
	"testing"

	"holdfast/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.Main(m)) }
