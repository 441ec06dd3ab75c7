package fault

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"holdfast/test/binary"
)

// key is the place of a record.
type key struct{ collection, id string }

// record is the content of a record. Payloads are never sent twice, so one identifies its write.
type record struct {
	payload   string
	sortindex int64
	modified  moment
}

// state is all data of a writer.
type state map[key]record

// keys returns the keys in order, so that a choice among them follows from the seed.
func (s state) keys() []key {
	return slices.SortedFunc(maps.Keys(s), func(a, b key) int {
		return cmp.Or(strings.Compare(a.collection, b.collection), strings.Compare(a.id, b.id))
	})
}

// step is one request and its effects when it is acknowledged.
type step struct {
	writer       string
	method, path string // the path is relative to the user's storage
	body         string
	collection   string
	known        moment // the newest timestamp when it was sent
	sent         int64  // by the harness's clock
	status       int    // of an acknowledgement

	puts    state // without timestamps yet
	deletes []key
	refused bool // not merely lost
	staged  bool // puts are added to the batch
	commits bool // the batch ends
}

func (s *step) String() string { return s.writer + "'s " + s.method + " " + s.path }

// applied returns the state after the step. It does not change before.
func (s *step) applied(before state, stamp moment) state {
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

// stampIn returns the timestamp of the step if any of its records is there.
func (s *step) stampIn(there state) moment {
	for k, r := range s.puts {
		if there[k].payload == r.payload {
			return there[k].modified
		}
	}
	return 0
}

// acknowledgement is a successful answer.
type acknowledgement struct {
	Modified json.Number       `json:"modified"`
	Success  []string          `json:"success"`
	Failed   map[string]string `json:"failed"`
	Batch    string            `json:"batch"`

	stamp moment // 0 for records added to a batch
}

// read checks an answer that is not caused by a fault.
func (s *step) read(a binary.Answer, sent int) (ack acknowledgement, err error) {
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
	if s.method == http.MethodPost && (len(ack.Success) != sent || len(ack.Failed) > 0) {
		return ack, fmt.Errorf("%s: of %d records: %s", s, sent, a.Body)
	}
	if s.staged {
		return ack, nil
	}
	if ack.stamp, err = parseMoment(ack.Modified.String()); err != nil {
		return ack, fmt.Errorf("%s: %w", s, err)
	}
	return ack, nil
}
