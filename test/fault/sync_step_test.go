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

// key is where a record is.
type key struct{ collection, id string }

// record is what is stored there. Payloads are never sent twice, so one tells
// which write it is of.
type record struct {
	payload   string
	sortindex int64
	modified  moment
}

// state is all that a writer has stored.
type state map[key]record

// keys are in order: a choice among them is to follow from the seed.
func (s state) keys() []key {
	return slices.SortedFunc(maps.Keys(s), func(a, b key) int {
		return cmp.Or(strings.Compare(a.collection, b.collection), strings.Compare(a.id, b.id))
	})
}

// step is one request, and what it does when it is acknowledged.
type step struct {
	writer       string
	method, path string // the path begins behind the user's storage
	body         string
	collection   string
	known        moment // the newest stamp when it was sent
	sent         int64  // when, by the harness's clock
	status       int    // of an acknowledgement

	puts    state // with no stamps yet
	deletes []key
	refused bool // not merely lost
	staged  bool // puts wait in the batch
	commits bool // the batch ends
}

func (s *step) String() string { return s.writer + "'s " + s.method + " " + s.path }

// applied is the state after the step, which is left as it was.
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

// stampIn is the stamp of the step if any of its records is there.
func (s *step) stampIn(there state) moment {
	for k, r := range s.puts {
		if there[k].payload == r.payload {
			return there[k].modified
		}
	}
	return 0
}

// acknowledgement is what an answer of success says.
type acknowledgement struct {
	Modified json.Number       `json:"modified"`
	Success  []string          `json:"success"`
	Failed   map[string]string `json:"failed"`
	Batch    string            `json:"batch"`

	stamp moment // 0 of what is staged
}

// read judges an answer that is not about a fault.
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
