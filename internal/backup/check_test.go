package backup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/app/service"
)

// TestCheckContents walks the states of the record of backups: check reads the newer backups at the target, and says so if
// it cannot.
func TestCheckContents(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(m *moving, record, earlier string)
		want  []string // subjects of the findings, before the last backup has both databases and afterwards
		says  string   // in the last one
	}{
		"intact":  {func(*moving, string, string) {}, nil, ""},
		"missing": {func(m *moving, record, _ string) { m.must(os.Remove(record)) }, nil, ""},
		"old":     {func(m *moving, record, earlier string) { m.must(os.WriteFile(record, []byte(earlier), 0o600)) }, nil, ""},
		"broken":  {func(m *moving, record, _ string) { m.must(os.WriteFile(record, []byte("{"), 0o600)) }, nil, ""},
		"broken, without backups at the target": {func(m *moving, record, _ string) {
			m.must(os.WriteFile(record, []byte("{"), 0o600))
			m.s.URL = ""
		}, []string{"backup contents"}, "cannot be read"},
		"old, and the newest backup is damaged": {func(m *moving, record, earlier string) {
			m.must(os.WriteFile(record, []byte(earlier), 0o600))
			m.damageNewest()
		}, []string{"backup contents"}, RecordFile + " is older than the newest backup at "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMoving(t, t.TempDir(), "one", "two")
			defer m.close()
			m.s.Keep = ""
			m.place("one")
			m.send()
			record := filepath.Join(m.server.Data, RecordFile)
			earlier, err := os.ReadFile(record)
			m.must(err)
			m.place("one", "two")
			if found := m.checkContents(); len(found) != 1 || found[0].What != "two backup" {
				t.Fatalf("a new database: %+v", found)
			}
			m.send()
			if found := m.checkContents(); len(found) > 0 {
				t.Fatalf("after its backup: %+v", found)
			}
			tc.spoil(m, record, string(earlier))
			var got []string
			for _, f := range m.checkContents() {
				got = append(got, f.What)
				if f.State != service.Warning || !strings.Contains(f.Says, tc.says) {
					t.Errorf("%+v", f)
				}
			}
			if strings.Join(got, ", ") != strings.Join(tc.want, ", ") {
				t.Errorf("found %q, want %q", got, tc.want)
			}
		})
	}
}

func (m *moving) checkContents() []service.Finding {
	return CheckContents(m.t.Context(), Checked{Settings: &m.s, Data: m.server.Data}, m.server.Known, m.databases())
}

// damageNewest overwrites the newest backup's file list.
func (m *moving) damageNewest() {
	m.t.Helper()
	all, err := filepath.Glob(filepath.Join(strings.TrimPrefix(m.s.URL, "file://"), "points", "*"))
	m.must(err)
	if len(all) != 2 {
		m.t.Fatalf("points: %q", all)
	}
	m.must(os.WriteFile(all[1], []byte("damaged"), 0o600))
}
