package overview

import (
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/certificates"
)

func TestGuideNamesAlerts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{NotReady, CheckFails, Certificate, DiskFull, BackupLate, BackupFails, ReplicaLate, SweepLate, Backlog} {
		if !strings.Contains(string(text), "\n| `"+name+"` | ") {
			t.Errorf("docs/monitoring.md has no alert %s", name)
		}
	}
}

func TestCertificateConditions(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		state certificates.State
		want  service.State // "": no condition
		says  string
	}{
		{"good", certificates.State{Until: now.AddDate(0, 0, 20)}, "", ""},
		{"the first is on its way", certificates.State{}, "", ""},
		{"the first does not come", certificates.State{Problem: "refused"}, service.Wrong, "there is no certificate: refused"},
		{"ends soon", certificates.State{Until: now.AddDate(0, 0, 13)}, service.Warning, "the certificate ends on 2026-01-14"},
		{"has ended", certificates.State{Until: now.AddDate(0, 0, -1), Problem: "refused"}, service.Wrong, "the certificate ends on 2025-12-31, and a new one cannot be used: refused"},
		{"a new one cannot be used", certificates.State{Until: now.AddDate(0, 0, 20), Problem: "no key"}, service.Warning, "the certificate ends on 2026-01-21, and a new one cannot be used: no key"},
	} {
		var state service.State
		var says string
		for _, one := range certificateConditions(c.state, 14*24*time.Hour, now) {
			state, says = one.State, one.Says
		}
		if state != c.want || says != c.says {
			t.Errorf("%s: %q %q, want %q %q", c.name, state, says, c.want, c.says)
		}
	}
}

func TestDiskCondition(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for _, c := range []struct {
		name string
		disk disk
		want service.State
		says string
	}{
		{"half empty", disk{free: 50 * gib, size: 100 * gib}, "", ""},
		{"grows slowly", disk{free: 50 * gib, size: 100 * gib, grown: gib}, "", ""},
		{"grows fast", disk{free: 50 * gib, size: 100 * gib, grown: 10 * gib}, service.Warning, "50.0 GiB free, and the databases fill that within 6 days"},
		{"shrinks", disk{free: 50 * gib, size: 100 * gib, grown: -10 * gib}, "", ""},
		{"nearly full", disk{free: 9 * gib, size: 100 * gib}, service.Warning, "9.0 GiB free"},
		{"full", disk{free: gib, size: 100 * gib}, service.Wrong, "1.0 GiB free"},
	} {
		var state service.State
		var says string
		if one := c.disk.condition(7); one != nil {
			state, says = one.State, one.Says
		}
		if state != c.want || says != c.says {
			t.Errorf("%s: %q %q, want %q %q", c.name, state, says, c.want, c.says)
		}
	}
}
