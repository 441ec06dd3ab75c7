package ext_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/client/ext"
)

// testUpdate lets writers add to one number in parallel, while responses are lost.
func testUpdate(t *testing.T, s *site) {
	in, w := s.install(t)
	settings, ctx := in.Records("settings"), t.Context()
	var requests atomic.Int64
	w.spoil = func(*http.Request, *http.Response) error {
		if requests.Add(1)%7 == 0 {
			return errLost
		}
		return nil
	}
	add := func(rec *ext.Record) (p ext.Put, err error) {
		n := 0
		if rec == nil {
			p.Metadata = map[string]string{"by": "me"}
		} else {
			err = json.Unmarshal(rec.Value, &n)
		}
		p.Value = n + 1
		return p, err
	}
	const writers, each = 2, 30
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				if _, err := settings.Update(ctx, "n", add); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	w.spoil = nil
	rec := must[ext.Record](t)(settings.Get(ctx, "n"))
	if string(rec.Value) != "60" || rec.Revision != writers*each || string(rec.Metadata) != `{"by":"me"}` {
		t.Errorf("%d updates: %s with %s in revision %d", writers*each, rec.Value, rec.Metadata, rec.Revision)
	}
	returns := func(p ext.Put, err error) func(*ext.Record) (ext.Put, error) {
		return func(*ext.Record) (ext.Put, error) { return p, err }
	}
	if meta := must[ext.RecordMeta](t)(settings.Update(ctx, "n", returns(ext.Put{}, ext.ErrUnchanged))); meta.Etag != rec.Etag || meta.CreatedAt != rec.CreatedAt {
		t.Errorf("unchanged: %+v", meta)
	}
	if meta := must[ext.RecordMeta](t)(settings.Update(ctx, "n", returns(ext.Put{Value: 1, TTL: time.Hour, Metadata: struct{}{}}, nil))); meta.TTLExpiresAt == nil || meta.Revision != rec.Revision+1 {
		t.Errorf("with a TTL: %+v", meta)
	}
	for range 2 { // the second finds no record
		if meta := must[ext.RecordMeta](t)(settings.Update(ctx, "n", returns(ext.Put{}, ext.ErrDelete))); meta != (ext.RecordMeta{}) {
			t.Errorf("deleted: %+v", meta)
		}
	}
	_, err := settings.Get(ctx, "n")
	refused(t, err, ext.CodeNotFound)
	errOwn := errors.New("no")
	if _, err := settings.Update(ctx, "n", returns(ext.Put{}, errOwn)); !errors.Is(err, errOwn) {
		t.Errorf("an error of the function: %v", err)
	}
	_, err = settings.Update(ctx, "n", returns(ext.Put{Value: 1, TTL: time.Second}, nil))
	refused(t, err, ext.CodeValidationFailed)

	// Another client always comes first.
	stopped, stop := context.WithCancel(ctx)
	defer stop()
	rounds := 0
	_, err = settings.Update(stopped, "busy", func(*ext.Record) (ext.Put, error) {
		if rounds++; rounds == 5 {
			stop()
		}
		must[ext.RecordMeta](t)(settings.Put(ctx, "busy", ext.Put{Value: rounds}))
		return ext.Put{Value: "mine"}, nil
	})
	if !errors.Is(err, context.Canceled) || rounds != 5 {
		t.Errorf("after %d rounds: %v", rounds, err)
	}
}

// TestUpdateGivesUp updates a record that another client always changes first.
func TestUpdateGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := must[*ext.Client](t)(ext.New("http://server.example", ext.StaticToken("t")))
		c.HTTP = &http.Client{Transport: contended{}}
		rounds := 0
		_, err := c.Install(uuid()).Records("settings").Update(t.Context(), "busy", func(*ext.Record) (ext.Put, error) {
			rounds++
			return ext.Put{Value: "mine"}, nil
		})
		if refused(t, err, ext.CodeRevisionMismatch); rounds != 100 {
			t.Errorf("%d rounds", rounds)
		}
	})
}

// contended has a record, and refuses to change it.
type contended struct{}

// RoundTrip implements http.RoundTripper.
func (contended) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return response(&phase{Status: http.StatusOK}, `{"namespace":"settings","key":"busy","revision":1,"etag":"\"1\"","value":1,"metadata":{}}`), nil
	}
	return response(&phase{Status: http.StatusPreconditionFailed}, `{"error":{"code":"BULK_PARTIAL_FAILURE","cause":"REVISION_MISMATCH","index":0}}`), nil
}
