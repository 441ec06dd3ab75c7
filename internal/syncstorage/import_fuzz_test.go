package syncstorage_test

import (
	"bytes"
	"context"
	"testing"

	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

type sink struct {
	ss.Store
	t       *testing.T
	last    ss.Timestamp
	records int64
}

func (s *sink) Collections(context.Context, ss.Owner) (ss.Collections, error) {
	return ss.Collections{}, nil
}

func (s *sink) Restore(_ context.Context, _ ss.Owner, w ss.Write, r ss.Restore) (ss.Restored, error) {
	if err := w.If.Check(s.last); err != nil {
		s.t.Errorf("the user's stamp is %d: %v", s.last, err)
	}
	if !ss.ValidCollection(w.Collection) || len(r.Records) > 100 {
		s.t.Errorf("%d records of %q", len(r.Records), w.Collection)
	}
	for i := range r.Records {
		b := &r.Records[i]
		if err := b.CheckExported(w.Now); err != nil || i > 0 && b.ID <= r.Records[i-1].ID || b.Modified > r.Modified {
			s.t.Errorf("record %d is %+v: %v", i, b, err)
		}
	}
	s.last = max(s.last, r.Modified)
	s.records += int64(len(r.Records))
	return ss.Restored{User: s.last}, nil
}

// FuzzImport checks that an import never passes on an invalid record, or reports an incomplete file as complete.
func FuzzImport(f *testing.F) {
	for _, seed := range []string{
		"{\"export\":1,\"records\":1,\"exportedAt\":1}\n{\"collection\":\"tabs\",\"modified\":1700000000000}\n" +
			"{\"collection\":\"tabs\",\"id\":\"a\",\"sortindex\":5,\"payload\":\"x\",\"modified\":1700000000000,\"expiry\":1900000000000}\n" +
			"{\"collection\":\"tabs\",\"id\":\"b\",\"payloadBase64\":\"/w==\",\"modified\":1700000000000}\n" +
			"{\"complete\":true,\"collections\":1,\"records\":2}\n",
		"{\"export\":1}\n{\"collection\":\"a\",\"modified\":10}\n{\"collection\":\"b\",\"modified\":20}\n{\"complete\":true,\"collections\":2,\"records\":0}",
		"{\"export\":1}\n{\"id\":\"a\"}", "{\"export\":1}\n[", "\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		store := &sink{t: t}
		service, err := ss.NewService(ss.Options{Store: store, Config: ss.DefaultConfig(), Clock: clock.System})
		if err != nil {
			t.Fatal(err)
		}
		im, err := service.NewImport(bytes.NewReader(data), clock.System)
		if err != nil {
			return
		}
		done, err := im.Run(t.Context(), ss.Owner{UID: 1}, ss.ImportOptions{Preserve: true})
		if err != nil && errcode.Of(err) != errcode.Invalid {
			t.Errorf("%v is %v, want %v", err, errcode.Of(err), errcode.Invalid)
		}
		if done.Written != store.records || err == nil && done.Written+done.Expired != done.Records {
			t.Errorf("%+v, and %d came: %v", done, store.records, err)
		}
	})
}
