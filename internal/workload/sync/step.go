package sync

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"holdfast/internal/workload"
)

// Key is a record in a user's storage.
type Key struct{ Collection, ID string }

// Content is a record's content. Payloads are unique, so a payload identifies its write.
type Content struct {
	payload   string
	sortindex int64
	modified  Moment
}

// State is all records of a writer.
type State map[Key]Content

// Keys returns the keys sorted, so that choices depend only on the seed.
func (s State) Keys() []Key {
	return slices.SortedFunc(maps.Keys(s), func(a, b Key) int {
		return cmp.Or(strings.Compare(a.Collection, b.Collection), strings.Compare(a.ID, b.ID))
	})
}

// Step is a request with its effects on success.
type Step struct {
	writer       string
	Method, Path string // the path is relative to the user's storage
	Body         string
	collection   string
	Known        Moment // newest timestamp when sent
	Sent         int64  // harness's clock
	status       int

	puts    State // without timestamps yet
	deletes []Key
	Refused bool // not merely lost
	staged  bool
	commits bool
}

func (s *Step) String() string { return s.writer + "'s " + s.Method + " " + s.Path }

// applied returns the state after the step, without modifying before.
func (s *Step) applied(before State, stamp Moment) State {
	after := maps.Clone(before)
	if s.staged {
		return after
	}
	for _, k := range s.deletes {
		delete(after, k)
	}
	for k, r := range s.puts {
		r.modified = stamp
		after[k] = r
	}
	return after
}

// stampIn returns the stamp that the server gave the step, if there shows its records; otherwise 0.
func (s *Step) stampIn(there State) Moment {
	for k, r := range s.puts {
		if there[k].payload == r.payload {
			return there[k].modified
		}
	}
	return 0
}

// Acknowledgement is the answer to a write.
type Acknowledgement struct {
	Modified json.Number       `json:"modified"`
	Success  []string          `json:"success"`
	Failed   map[string]string `json:"failed"`
	Batch    string            `json:"batch"`

	stamp Moment // 0 for records added to a batch
}

// read checks the answer to a step that sent a number of records.
func (s *Step) read(a workload.Answer, sent int) (ack Acknowledgement, err error) {
	if a.Status != s.status {
		return ack, fmt.Errorf("%s: %d %s, want %d", s, a.Status, a.Body, s.status)
	}
	if strings.HasPrefix(a.Body, "{") {
		err = json.Unmarshal([]byte(a.Body), &ack)
	} else {
		ack.Modified = json.Number(a.Body)
	}
	if err != nil {
		return ack, fmt.Errorf("%s: %s: %w", s, a.Body, err)
	}
	if s.Method == http.MethodPost && (len(ack.Success) != sent || len(ack.Failed) > 0) {
		return ack, fmt.Errorf("%s: of %d records: %s", s, sent, a.Body)
	}
	if s.staged {
		return ack, nil
	}
	if ack.stamp, err = ParseMoment(ack.Modified.String()); err != nil {
		return ack, fmt.Errorf("%s: %w", s, err)
	}
	return ack, nil
}
