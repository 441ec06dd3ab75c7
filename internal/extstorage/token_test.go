package extstorage_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

func (m *service) withToken(t ext.Token) ext.Request {
	r := m.r
	r.Grant.Token = t
	return r
}

func (m *service) onSameStore(t *testing.T) *service {
	t.Helper()
	s, err := ext.NewService(m.options)
	if err != nil {
		t.Fatal(err)
	}
	other := *m
	other.Service = s
	return &other
}

func TestRevokeToken(t *testing.T) {
	t.Parallel()
	m := newService(t)
	far := m.onSameStore(t)
	one, two := m.withToken(ext.Token{ID: "one"}), m.withToken(ext.Token{ID: "two"})
	service := m.withToken(ext.Token{ID: "one", Service: true})
	read := func(s *process, r ext.Request) error { _, err := s.Usage(t.Context(), r); return err }
	wantAll := func(when string, s *process, want map[string]error) {
		t.Helper()
		for name, r := range map[string]ext.Request{"one": one, "two": two, "service": service, "no ID": m.r} {
			if err := read(s, r); !errors.Is(err, want[name]) || want[name] == nil && err != nil {
				t.Errorf("%s: %s: %v, want %v", when, name, err, want[name])
			}
		}
	}
	wantAll("at first", m.Service, nil)
	wantAll("at first", far.Service, nil)
	if _, err := m.RevokeToken(t.Context(), m.r.Grant.Owner, "one", 0); err != nil {
		t.Fatal(err)
	}
	oneRevoked := map[string]error{"one": ext.ErrTokenRevoked}
	wantAll("here", m.Service, oneRevoked)
	m.clock.Advance(time.Second - time.Nanosecond)
	wantAll("elsewhere, before a second", far.Service, nil)
	m.clock.Advance(time.Nanosecond)
	wantAll("elsewhere", far.Service, oneRevoked)

	if _, err := m.RevokeToken(t.Context(), ext.Services(tenant), "one", 0); err != nil {
		t.Fatal(err)
	}
	both := map[string]error{"one": ext.ErrTokenRevoked, "service": ext.ErrTokenRevoked}
	wantAll("with the service, here", m.Service, both)
	m.clock.Advance(time.Second)
	wantAll("with the service, elsewhere", far.Service, both)
	if _, err := m.Do(t.Context(), one, task(ext.PutTask, "k", "1")); !errors.Is(err, ext.ErrTokenRevoked) {
		t.Errorf("a write: %v", err)
	}
	if _, _, err := m.RegisterInstall(t.Context(), m.r.Grant.Owner, ext.Registration{}, true); err != nil {
		t.Fatal(err)
	}
	wantAll("after the install was registered", m.Service, both)
}

type process = ext.Service

func TestRevokeTokenBounds(t *testing.T) {
	t.Parallel()
	m := newService(t)
	o := m.r.Grant.Owner
	now := ext.At(m.clock.Now())
	for _, id := range []string{"", strings.Repeat("x", ext.MaxTokenID+1), "a\x00", "a\n", "\xff"} {
		_, err := m.RevokeToken(t.Context(), o, id, 0)
		wantPlace(t, fmt.Sprintf("%q", id), err, "/id")
	}
	_, err := m.RevokeToken(t.Context(), o, "a", now)
	wantPlace(t, "one that has expired", err, "/expires")
	c := ext.DefaultConfig()
	latest := now + ext.Moment((c.TokenMaxLifetime + 2*c.TokenLeeway).Milliseconds())
	for asked, want := range map[ext.Moment]ext.Moment{0: latest, now + 1: now + 1, 1 << 60: now + 100*365*24*3_600_000} {
		if got, err := m.RevokeToken(t.Context(), o, fmt.Sprint(asked), asked); err != nil || got.ExpiresAt != want {
			t.Errorf("until %d: %+v, %v, want %d", asked, got, err, want)
		}
	}
	for i := range ext.MaxRevokedTokens - 3 {
		if err := m.store.RevokeToken(t.Context(), o, ext.RevokedToken{ID: fmt.Sprint("of many ", i), ExpiresAt: now + 1000}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.RevokeToken(t.Context(), o, "last", 0); !errcode.Is(err, errcode.Quota) {
		t.Errorf("one more: %v", err)
	}
	m.clock.Advance(time.Second)
	if _, err := m.RevokeToken(t.Context(), o, "last", 0); err != nil {
		t.Errorf("one more, later: %v", err)
	}
}

// awayStore simulates an unavailable database.
type awayStore struct {
	ext.Installs
	away *bool
}

func (s awayStore) InstallState(ctx context.Context, o ext.Owner, now ext.Moment) (ext.Install, []string, error) {
	if *s.away {
		return ext.Install{}, nil, errcode.New(errcode.Unavailable, "the database is away")
	}
	return s.Installs.InstallState(ctx, o, now)
}

// TestRevokedWhileDatabaseIsAway checks that requests fail once the install's cached state is older than a second,
// because their token may have been revoked.
func TestRevokedWhileDatabaseIsAway(t *testing.T) {
	t.Parallel()
	away := false
	m := newService(t, func(o *ext.Options) { o.Installs = awayStore{o.Installs, &away} })
	r := m.withToken(ext.Token{ID: "one"})
	ask := func() error { _, err := m.Usage(t.Context(), r); return err }
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	away = true
	m.clock.Advance(time.Second - time.Nanosecond)
	if err := ask(); err != nil {
		t.Errorf("within a second: %v", err)
	}
	m.clock.Advance(time.Nanosecond)
	if err := ask(); !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("after a second: %v", err)
	}
	if err := m.store.RevokeToken(t.Context(), m.r.Grant.Owner, ext.RevokedToken{ID: "one", ExpiresAt: 1 << 50}); err != nil {
		t.Fatal(err)
	}
	away = false
	if err := ask(); !errors.Is(err, ext.ErrTokenRevoked) {
		t.Errorf("when it is back: %v", err)
	}
}

// TestChangesEndWithTheToken checks that a wait ends when the token expires or is revoked, however long the polling
// interval is.
func TestChangesEndWithTheToken(t *testing.T) {
	t.Parallel()
	asleep, tick := make(chan time.Duration), make(chan time.Time)
	m := newService(t, func(o *ext.Options) {
		o.Config.PollEvery = time.Minute
		o.After = func(d time.Duration) <-chan time.Time {
			asleep <- d
			return tick
		}
	})
	ended := make(chan error, 1)
	wait := func(token ext.Token) {
		go func() {
			_, err := m.Changes(t.Context(), m.withToken(token), 0, 10, time.Minute)
			ended <- err
		}()
	}
	wake := func(d time.Duration) {
		m.clock.Advance(d)
		tick <- time.Time{}
	}
	wait(ext.Token{ID: "brief", Ends: m.clock.Now().Add(1500 * time.Millisecond)})
	for _, want := range []time.Duration{time.Second, 500 * time.Millisecond} {
		if d := <-asleep; d != want {
			t.Errorf("it looks again after %v, want %v", d, want)
		}
		wake(want)
	}
	if err := <-ended; !errors.Is(err, ext.ErrTokenExpired) {
		t.Errorf("it has expired: %v", err)
	}

	for _, c := range []struct {
		name  string
		token ext.Token
		owner ext.Owner
		here  bool
	}{
		{"by another process", ext.Token{ID: "a"}, m.r.Grant.Owner, false},
		{"of a service, by another process", ext.Token{ID: "b", Service: true}, ext.Services(tenant), false},
		{"here", ext.Token{ID: "c"}, m.r.Grant.Owner, true},
		{"of a service, here", ext.Token{ID: "d", Service: true}, ext.Services(tenant), true},
	} {
		m.clock.Advance(time.Hour)
		wait(c.token)
		if d := <-asleep; d != time.Second {
			t.Errorf("%s: it looks again after %v", c.name, d)
		}
		var err error
		if c.here {
			_, err = m.RevokeToken(t.Context(), c.owner, c.token.ID, 0)
		} else {
			err = m.store.RevokeToken(t.Context(), c.owner, ext.RevokedToken{ID: c.token.ID, ExpiresAt: 1 << 50})
		}
		if err != nil {
			t.Fatal(err)
		}
		if !c.here || c.token.Service { // otherwise notified
			wake(time.Second)
		}
		if err := <-ended; !errors.Is(err, ext.ErrTokenRevoked) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
