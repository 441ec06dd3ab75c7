package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/backup"
)

// deletesOther are deletions of data without a person or tenant.
var deletesOther = map[string]string{
	"buckets accounts/delete":          "an account without buckets stores nothing",
	"buckets lifecycle/delete":         "a rule names objects by prefix, not persons",
	"buckets notifications/delete":     "notifications name objects by prefix, not persons",
	"buckets dead-letters/drop":        "an event names an object and has nothing of it",
	"buckets dead-letters/drop-all":    "an event names an object and has nothing of it",
	"buckets policy/delete":            "a policy names accounts, not persons",
	"extstorage schemas/delete":        "a schema is no data of a person",
	"extstorage dead-letters/drop":     "an audit event has no values",
	"extstorage dead-letters/drop-all": "an audit event has no values",
	"guest dead-letters/drop":          "an event has the ID of a session, which says nothing without its cookie",
	"guest dead-letters/drop-all":      "an event has the ID of a session, which says nothing without its cookie",
}

// TestDeletionsSayWhatRemains covers all operations that delete a person's or tenant's data.
func TestDeletionsSayWhatRemains(t *testing.T) {
	t.Parallel()
	found := 0
	for _, s := range Services() {
		for _, o := range s.Operations {
			name := s.Name + " " + o.Path
			if !slices.Contains([]string{"delete", "erase", "drop", "drop-all"}, o.Verb()) || deletesOther[name] != "" {
				continue
			}
			found++
			if field, says := o.Output().FieldByName("Retained"); !says || field.Tag.Get("json") != "retained" {
				t.Errorf("%s: the result does not embed service.Deleted", name)
			}
		}
	}
	if found < 4 {
		t.Errorf("%d deletions", found)
	}
}

// TestDeletionsNameCopies checks that deletions report a backup folder, and the date by which the replica forgets the
// data.
func TestDeletionsNameCopies(t *testing.T) {
	t.Parallel()
	cfg, _, err := Load(Services(), "", []string{"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_REPLICA__URL=file://" + filepath.ToSlash(t.TempDir()), "HOLDFAST_REPLICA__KEEP=3d"})
	if err != nil {
		t.Fatal(err)
	}
	data, folder := t.TempDir(), t.TempDir()
	a, err := Open(t.Context(), Options{Config: cfg, Data: data, LogTo: t.Output(), Mode: ModeServe})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	record := fmt.Sprintf(`{"at": %q, "path": %q}`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), folder)
	if err := os.WriteFile(filepath.Join(data, backup.RecordFile), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	h := a.adminHandler(&atomic.Bool{})
	send := func(path, body string) service.Copies {
		t.Helper()
		q := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		q.Host = "127.0.0.1:8001"
		q.Header.Set("Authorization", "Bearer "+a.Config().Server.AdminToken.Reveal())
		q.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, q)
		var got service.Deleted
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s, %v", path, w.Code, w.Body, err)
		}
		return got.Retained
	}
	session := "gms_" + strings.Repeat("0", 26)
	for path, body := range map[string]string{
		"/ext/tenants/11111111-2222-4333-8444-555555555555/delete":                                       `{"allowMissing":true}`,
		"/ext/installs/21111111-2222-4333-8444-555555555555/31111111-2222-4333-8444-555555555555/delete": `{"allowMissing":true}`,
		"/guest/sessions/" + session + "/erase":                                                          "",
	} {
		got := send(path, body)
		if len(got) != 2 || got[0].Kind != service.InReplica || got[1].Where != folder || !got[1].Until.IsZero() {
			t.Errorf("%s: %+v", path, got)
			continue
		}
		if in := time.Until(got[0].Until); in < 7*24*time.Hour || in > 9*24*time.Hour { // the default retention exceeds keep
			t.Errorf("%s: the replica has it for %v", path, in)
		}
	}
}
