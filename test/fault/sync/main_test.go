package sync

import (
	"os"
	"testing"

	"holdfast/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.MainOfWaiting(m, 8)) }
