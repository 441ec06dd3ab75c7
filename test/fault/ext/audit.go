package ext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holdfast/internal/workload/ext"
	"holdfast/test/fault/harness"
)

type auditLine struct {
	Owner   string `json:"owner"`
	Stream  string `json:"stream"`
	Seq     int64  `json:"seq"`
	Topic   string `json:"topic"`
	Key     string `json:"key"`
	Payload struct {
		Operation string `json:"operation"`
		Namespace string `json:"namespace"`
		Key       string `json:"key"`
		Revision  int64  `json:"revision"`
		Caller    string `json:"caller"`
	} `json:"payload"`
}

// checkAudit checks that the audit contains an install's changes in order, with correct counters. After a kill, events
// may repeat, and the complete line may follow a torn line.
func checkAudit(h *harness.Harness, installs []*ext.Install) {
	h.T.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(2 * harness.Bound) // a killed process may hold the lease for 30 s
	for ; ; <-tick.C {
		told := auditLines(h.T, filepath.Join(h.Data, "extstorage-audit.jsonl"))
		var why error
		for _, in := range installs {
			if err := compareAudit(in, told[in.ID]); err != nil {
				why = err
			}
		}
		if why == nil {
			break
		}
		if time.Now().After(deadline) {
			h.T.Fatal(why)
		}
	}
	h.Server.Verb("ext", "usage", "audit")
}

func auditLines(t *testing.T, path string) map[string][]auditLine {
	t.Helper()
	text, err := os.ReadFile(path)
	harness.Must(t, err)
	all := map[string][]auditLine{}
	for line := range bytes.Lines(text) {
		var l auditLine
		if json.Unmarshal(line, &l) == nil {
			all[l.Stream] = append(all[l.Stream], l)
		}
	}
	return all
}

func compareAudit(in *ext.Install, lines []auditLine) error {
	seen := int64(0)
	next := 0
	for _, l := range lines {
		if l.Seq <= seen {
			continue
		}
		for next < len(in.Feed) && in.Feed[next].Op == "expire" {
			next++
		}
		if next == len(in.Feed) {
			return fmt.Errorf("%s: the audit has %+v, which did not happen", in.ID, l)
		}
		want, got := in.Feed[next], l.Payload
		if l.Owner != harness.ExtTenant || l.Seq != want.Seq || l.Topic != "extstorage."+want.Op || l.Key != want.Namespace+"/"+want.Key ||
			got.Operation != want.Op || got.Namespace != want.Namespace || got.Key != want.Key || got.Revision != want.Revision || got.Caller != "token" {
			return fmt.Errorf("%s: the audit has %+v, want %v", in.ID, l, want)
		}
		seen = l.Seq
		next++
	}
	for ; next < len(in.Feed); next++ {
		if in.Feed[next].Op != "expire" {
			return fmt.Errorf("%s: the audit lacks %v", in.ID, in.Feed[next])
		}
	}
	return nil
}
