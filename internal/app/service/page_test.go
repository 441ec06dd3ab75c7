package service_test

import (
	"testing"

	"holdfast/internal/app/service"
)

func TestHasWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, query string
		want        bool
	}{
		{"Extension storage Quotas", "quota", true}, {"Extension storage Quotas", "QUOTA ext", true}, {"Extension storage Quotas", "quota bucket", false},
		{"Extension storage Quotas", "tension", false}, {"server.max_requests", "requests", true}, {"server.max_requests", "max_req", true},
		{"server.max_requests", "server.max", true}, {"server.max_requests", "equests", false}, {"server.max_requests", "_", false},
		{"reread read", "read", true}, {"aa aaa", "aaa", true}, {"überall", "berall", false}, {"x überall", "über", true},
		{"name", "", false}, {"name", "  ", false}, {"", "a", false}, {"name", "\xff", false}, {"\xff\xfe", "\xfe", true},
	} {
		if got := service.HasWords(c.name, c.query); got != c.want {
			t.Errorf("HasWords(%q, %q) = %t", c.name, c.query, got)
		}
	}
}
