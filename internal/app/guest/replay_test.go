package guest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReplay checks that published events are listed, and published again with the same IDs by time, sequence and
// type.
func TestReplay(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	_, send := o.visit()
	start := time.Now()
	for n := range 3 {
		o.later.Store(int64(time.Duration(n) * time.Hour))
		wish(send, n)
	}
	o.later.Store(int64(26 * time.Hour)) // the last event is in the ID margin
	send(http.MethodDelete, "/wishlist/0"+property[1:], "")
	var ids []string
	publish := func() (names []string) {
		t.Helper()
		waiting, err := o.outbox.ListWaiting(t.Context(), 0, 10)
		must(t, err)
		for _, e := range waiting {
			if !strings.Contains(e.Topic, ".wishlist.") { // the session's first event, published in the background
				continue
			}
			names = append(names, e.Name)
			o.publish(e.Name)
		}
		return names
	}
	ids = publish()
	if len(ids) != 4 {
		t.Fatalf("published %q", ids)
	}
	sequence := o.wantPublished(ids)
	at := func(hours int) string { return start.Add(time.Duration(hours) * time.Hour).UTC().Format(time.RFC3339) }
	for body, want := range map[string]int{
		fmt.Sprintf(`{"from":%q}`, at(-1)):                                                      4,
		fmt.Sprintf(`{"from":%q}`, at(3)):                                                       1,
		fmt.Sprintf(`{"from":%q}`, at(27)):                                                      0,
		fmt.Sprintf(`{"from":%q,"to":%q,"type":"wishlist.added.v1"}`, at(0), at(2)):             2,
		fmt.Sprintf(`{"from":%q,"type":"melmastoon.bff.consumer.wishlist.removed.v1"}`, at(-1)): 1,
		fmt.Sprintf(`{"from":%q,"type":"other"}`, at(-1)):                                       0,
		fmt.Sprintf(`{"from":"%d"}`, sequence):                                                  1,
		`{"from":"1"}`:                                                                          4,
	} {
		for _, dry := range []bool{true, false} {
			var r struct {
				Queued, Found *int
				KeptSince     time.Time
			}
			sent := body
			if dry {
				sent = body[:len(body)-1] + `,"dryRun":true}`
			}
			must(t, json.Unmarshal([]byte(o.send(200, http.MethodPost, "events/replay", sent)), &r))
			got := r.Queued
			if dry {
				got = r.Found
			}
			if got == nil || *got != want || r.KeptSince.IsZero() {
				t.Errorf("%s: %+v, want %d", sent, r, want)
			}
		}
		again := publish()
		if len(again) != want || slices.ContainsFunc(again, func(id string) bool { return !slices.Contains(ids, id) }) {
			t.Errorf("%s: published %q again, want %d of %q", body, again, want, ids)
		}
	}
	for _, wrong := range []string{`{}`, `{"from":"yesterday"}`, `{"from":"0"}`, `{"from":"-1"}`, `{"from":"1","to":"2"}`} {
		o.send(422, http.MethodPost, "events/replay", wrong)
	}
}

func (o *operator) wantPublished(ids []string) int64 {
	o.t.Helper()
	type page struct {
		Events []struct {
			ID, Type       string
			Sequence       int64
			At, Published  time.Time
			Payload        json.RawMessage
			Key, Subject   string
			RetentionClass string
		}
		Next *string
	}
	first := get[page](o, "events?limit=3")
	rest := get[page](o, "events?limit=3&after="+url.QueryEscape(*first.Next))
	var listed []string
	for _, e := range slices.Concat(first.Events, rest.Events) {
		listed = append(listed, e.ID)
		if e.Published.IsZero() || len(e.Payload) == 0 {
			o.t.Errorf("listed %+v", e)
		}
	}
	slices.Sort(ids)
	if !slices.Equal(listed, ids) || rest.Next != nil {
		o.t.Errorf("listed %q, published %q", listed, ids)
	}
	return rest.Events[len(rest.Events)-1].Sequence
}
