package buckets_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/clock"
)

type keyStore struct {
	buckets.Accounts

	keys  map[string]buckets.Key
	reads int
}

func (s *keyStore) Key(_ context.Context, id string) (buckets.Key, error) {
	s.reads++
	k, ok := s.keys[id]
	if !ok {
		return k, buckets.ErrNoKey
	}
	return k, nil
}

func (s *keyStore) CreateKey(_ context.Context, k buckets.Key) error {
	s.keys[k.ID] = k
	return nil
}

func (s *keyStore) AccountByID(_ context.Context, id buckets.AccountID) (buckets.Account, error) {
	return buckets.Account{ID: id, Name: "main"}, nil
}

// TestUnknownKeys checks that an unknown key is looked up once per second. A new key works immediately in its process,
// and within a second in others.
func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	s, now := &keyStore{keys: map[string]buckets.Key{}}, clock.NewManual(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	ring := func() *buckets.Keyring {
		k, err := buckets.NewKeyring(s, now.Now, strings.Repeat("s", 32), nil)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	here, there := ring(), ring()
	find := func(k *buckets.Keyring, id string, want bool) {
		t.Helper()
		if _, ok, err := k.Find(t.Context(), id); ok != want || err != nil {
			t.Errorf("found: %t, %v", ok, err)
		}
	}
	if _, _, known := here.Known("unknown"); known {
		t.Error("known before it was looked for")
	}
	for range 10 {
		find(here, "unknown", false)
	}
	if _, ok, known := here.Known("unknown"); ok || !known || s.reads != 1 {
		t.Errorf("%t, known: %t, %d reads of an unknown key, want 1", ok, known, s.reads)
	}
	now.Advance(buckets.KeyDelay)
	find(here, "unknown", false)
	if s.reads != 2 {
		t.Errorf("%d reads after the delay, want 2", s.reads)
	}

	key, _ := here.New("a", buckets.KeyTerms{}) // the ID is known before the key is stored
	find(here, key.ID, false)
	find(there, key.ID, false)
	if err := s.CreateKey(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	here.Changed(key.ID)
	find(here, key.ID, true)
	now.Advance(buckets.KeyDelay)
	find(there, key.ID, true)

	id, _, err := here.Create(t.Context(), "a", buckets.KeyTerms{})
	if err != nil {
		t.Fatal(err)
	}
	find(here, id, true)

	reads := s.reads
	find(here, "unknown", false)
	now.Advance(-time.Hour) // setting the clock back must not extend the cache entry by an hour
	find(here, "unknown", false)
	if s.reads != reads+2 {
		t.Errorf("%d reads after the clock was set back, want 2", s.reads-reads)
	}
}
