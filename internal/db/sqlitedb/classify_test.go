package sqlitedb_test

import (
	"context"
	"strings"
	"testing"

	"holdfast/internal/errcode"
)

// TestInterrupted checks that an interrupted statement does not report an unusable file.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	db, _, _ := followed(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Purge(ctx); !errcode.Is(err, errcode.Unavailable) || !strings.Contains(err.Error(), "the request ended") {
		t.Errorf("%v", err)
	}
}
