package guest

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/app/service/servicetest"
	"holdfast/internal/clock"
	"holdfast/internal/guest"
)

// TestSharedAddress exceeds the limits that all sessions of an address share. If no visitor from the internet can have the address,
// the log names it and the settings, once an hour. It is silent for public addresses, and for a session's own limit.
func TestSharedAddress(t *testing.T) {
	t.Parallel()
	now, out := clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)), &bytes.Buffer{}
	s := New()
	servicetest.Open(t, s.Service(), func(d *service.Deps) { d.Clock, d.Log = now.Now, slog.New(slog.NewTextHandler(out, nil)) })
	exceed := func(class guest.Class, session guest.ID, address string) {
		t.Helper()
		for range 100 * s.opened.guests.Limits()[class].Burst {
			if r, _, err := s.opened.guests.Limit(t.Context(), class, session, address); err != nil {
				t.Fatal(err)
			} else if !r.Allowed {
				return
			}
		}
		t.Fatalf("%s: %s is not limited", address, class)
	}
	for address, warns := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "10.0.0.1": true, "172.31.255.255": true, "192.168.1.20": true, "169.254.1.1": true,
		"100.64.0.1": true, "100.127.255.255": true, "fd00::1": true, "fe80::1": true, "::ffff:192.168.1.21": true,
		"172.32.0.1": false, "100.128.0.1": false, "203.0.113.1": false, "2001:db8::1": false, "::ffff:203.0.113.2": false, "invalid IP": false,
	} {
		want := func(class guest.Class) { // "": nothing
			t.Helper()
			got := out.String()
			out.Reset()
			if !warns || class == "" {
				if got != "" {
					t.Errorf("%s: %s", address, got)
				}
				return
			}
			for _, part := range []string{
				"level=WARN", "client_address=" + address + " ", "limit=" + string(class), "server.trusted_proxies", "guest.enabled = true", "X-Forwarded-For",
			} {
				if strings.Count(got, part) != 1 {
					t.Errorf("%s: want %s once in %q", address, part, got)
				}
			}
		}
		for class := range s.opened.guests.Limits() {
			now.Advance(sharedEvery)
			if class != guest.ClassBootstrap {
				exceed(class, "gms_1", address) // the session's own limit
				want("")
			}
			exceed(class, "", address)
			want(class)
			exceed(class, "", address)
			now.Advance(sharedEvery - time.Microsecond)
			exceed(class, "", address)
			want("")
			now.Advance(time.Microsecond)
			exceed(class, "", address)
			want(class)
		}
	}
}
