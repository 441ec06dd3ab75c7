package spanner_test

import (
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

// TestSpannerRefusesTheSize injects errors, because the emulator lacks the limits.
func TestSpannerRefusesTheSize(t *testing.T) {
	t.Parallel()
	mutations, err := status.New(codes.InvalidArgument, "The transaction contains too many mutations. (Maximum number: 80000)").
		WithDetails(&errdetails.Help{Links: []*errdetails.Help_Link{{Url: "https://cloud.google.com/spanner/docs/limits"}}})
	if err != nil {
		t.Fatal(err)
	}
	bytes := status.New(codes.InvalidArgument, "The transaction exceeds the maximum total bytes-size that can be handled by Spanner. (Maximum size: 104857600)")
	s, o := newTapped(t, nil), user("a")
	if _, err := s.Append(t.Context(), o, to("forms", 1, ss.Quota{}), ss.BatchPart{ID: "b", Opens: true, Updates: updates(3, 10), Limits: wide}); err != nil {
		t.Fatal(err)
	}
	for i, tc := range []struct {
		name   string
		method string
		with   *status.Status
		step   func(w ss.Write) error
	}{
		{"Put", commit, mutations, func(w ss.Write) error { _, err := s.Put(t.Context(), o, w, update("new", "x")); return err }},
		{"Post", commit, bytes, func(w ss.Write) error { _, err := s.Post(t.Context(), o, w, updates(2, 10)); return err }},
		{"Append", commit, mutations, func(w ss.Write) error {
			_, err := s.Append(t.Context(), o, w, ss.BatchPart{ID: "b", Updates: []ss.Update{update("new", "x")}, Limits: wide})
			return err
		}},
		{"Commit", commit, mutations, func(w ss.Write) error {
			_, err := s.Commit(t.Context(), o, w, ss.BatchPart{ID: "b", Updates: []ss.Update{update("new", "x")}, Limits: wide})
			return err
		}},
		{"the statements of a Commit", dml, bytes, func(w ss.Write) error {
			_, err := s.Commit(t.Context(), o, w, ss.BatchPart{ID: "b", Limits: wide})
			return err
		}},
	} {
		s.wire.refuse = func(method string) error {
			if method != tc.method {
				return nil
			}
			return tc.with.Err()
		}
		if err := tc.step(to("forms", 2+i, ss.Quota{})); !errcode.Is(err, errcode.TooLarge) {
			t.Errorf("%s: %v, want %v", tc.name, err, errcode.TooLarge)
		}
		s.wire.refuse = nil
		if cs, err := s.Collections(t.Context(), o); err != nil || len(cs.Stamps) != 0 {
			t.Errorf("%s: then there is %v, %v", tc.name, cs, err)
		}
	}
	if _, err := s.Commit(t.Context(), o, to("forms", 9, ss.Quota{}), ss.BatchPart{ID: "b", Limits: wide}); err != nil {
		t.Fatal(err)
	}
	if u, err := s.Usage(t.Context(), o, at(10)); err != nil || len(u.Collections) != 1 || u.Collections[0].Records != 3 {
		t.Errorf("at the end: %v, %v", u, err)
	}
}
