package backup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"holdfast/internal/app/service"
	"holdfast/internal/replica"
	"holdfast/internal/secrets"
)

// TestSkippedVerification walks the ways in which a backup is not restored and read. None of them counts as verified, in
// the result, in the record and in check.
func TestSkippedVerification(t *testing.T) {
	t.Parallel()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		edit       func(m *moving)
		isVerified bool
	}{
		"verified":       {func(*moving) {}, true},
		"verify is off":  {func(m *moving) { m.s.Verify = false }, false},
		"no key":         {func(m *moving) { m.s.Recipients = []string{key.Recipient().String()} }, false},
		"no database":    {func(m *moving) { m.place() }, false},
		"another record": {func(m *moving) { m.s.Verify = false; m.server.RecordVerified(m.s.URL, pointAt(m), "") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMoving(t, t.TempDir(), "one")
			defer m.close()
			tc.edit(m)
			sent, err := m.server.Send(t.Context(), &Sending{Settings: m.s})
			if err != nil {
				t.Fatal(err)
			}
			_, isRecorded := Verified(m.server.Data, m.s.URL)[sent.Point.Time.UnixNano()]
			found := Check(t.Context(), Checked{Settings: &m.s, Data: m.server.Data}, m.now.Now())
			isFound := len(found) == 1 && strings.Contains(found[0].Says, ", verified at ")
			measured := NewestVerified(m.server.Data, m.s.URL) // for the metric
			isMeasured := !measured.IsZero()
			if sent.Restored != tc.isVerified || isRecorded != tc.isVerified || isFound != tc.isVerified || isMeasured != tc.isVerified {
				t.Errorf("restored %v, recorded %v, measured %v, found %+v", sent.Restored, isRecorded, measured, found)
			}
		})
	}
}

// pointAt returns a point a second before the clock.
func pointAt(m *moving) replica.Point {
	return replica.Point{Time: m.now.Now().Add(-time.Second), Files: map[string]replica.Position{"one.db": {}}}
}

// TestVerifyNamesSkips checks that backup verify warns about everything that it did not read.
func TestVerifyNamesSkips(t *testing.T) {
	t.Parallel()
	m := newMoving(t, t.TempDir(), "one")
	defer m.close()
	warnings := func() (all []string) {
		t.Helper()
		if _, err := m.server.Send(t.Context(), &Sending{Settings: m.s}); err != nil {
			t.Fatal(err)
		}
		found, err := Verify(t.Context(), Verifying{URL: m.s.URL, Known: m.server.Known, Trust: replica.Trust{Unproven: true}, Temporary: t.TempDir(), Progress: func(string) {}})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if f.State == service.Warning {
				all = append(all, f.What)
			}
		}
		return all
	}
	if all := warnings(); len(all) > 0 {
		t.Errorf("a whole backup: %q", all)
	}
	m.place()
	if all := warnings(); len(all) != 1 || all[0] != "databases" {
		t.Errorf("without a database: %q", all)
	}
	m.place("one")
	if err := os.Remove(filepath.Join(m.server.Data, secrets.File)); err != nil {
		t.Fatal(err)
	}
	if all := warnings(); len(all) != 1 || all[0] != "secrets" {
		t.Errorf("without secrets: %q", all)
	}
}
