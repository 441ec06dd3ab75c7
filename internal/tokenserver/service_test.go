package tokenserver_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	"holdfast/internal/testdb/opened"
	"holdfast/internal/tokenserver"
	"holdfast/internal/tokenserver/sqlite"
)

var t0 = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

type purger struct {
	name string
	away map[string]bool
	log  *[]string
}

func (p purger) Purge(_ context.Context, u tokenserver.DueUser) error {
	*p.log = append(*p.log, p.name+" "+u.Node+" "+u.Account().FxAUID)
	if p.away[u.Node] {
		return errcode.New(errcode.Unavailable, "the node does not respond")
	}
	return nil
}

type service struct {
	*tokenserver.Service
	store tokenserver.Store
	hands *clock.Manual
	log   []string
	away  map[string]bool
}

func newService(t *testing.T, change func(*tokenserver.Options)) *service {
	t.Helper()
	db := opened.SQLite(t, sqlitedb.Options{}, sqlite.Migrations)
	r := &service{hands: clock.NewManual(t0), away: map[string]bool{}}
	o := tokenserver.Options{
		Config: tokenserver.DefaultConfig(), Store: sqlite.New(db), Clock: r.hands.Now, PublicURL: "https://here.example",
		Local: purger{"local", r.away, &r.log}, Remote: purger{"remote", r.away, &r.log},
	}
	o.Config.FxAMetricsHashSecret = "secret"
	if change != nil {
		change(&o)
	}
	var err error
	r.store = o.Store
	r.Service, err = tokenserver.NewService(o)
	must(t, err)
	return r
}

func (r *service) account(name string) tokenserver.Account {
	return tokenserver.Account{FxAUID: name, Domain: tokenserver.DefaultConfig().FxAEmailDomain}
}

// signIn creates a storage user. A new account gets the given node.
func (r *service) signIn(t *testing.T, name string, generation int64, node string) tokenserver.User {
	t.Helper()
	in := tokenserver.SignIn{
		Generation: tokenserver.At(generation), Now: r.hands.Now(), AllowNew: true, ReleaseRate: 0.1,
		Keys: tokenserver.KeyID{ChangedAt: tokenserver.At(generation), ClientState: string('a'+rune(generation)) + "0"},
	}
	if node != "" {
		n, err := r.store.AddNode(t.Context(), tokenserver.Node{URL: node, Available: 9, Capacity: 9})
		if errcode.Is(err, errcode.Conflict) {
			nodes, err := r.store.ListNodes(t.Context())
			must(t, err)
			n = nodes[slices.IndexFunc(nodes, func(n tokenserver.Node) bool { return n.URL == node })]
		} else {
			must(t, err)
		}
		in.SpannerNode = n.ID
	}
	u, err := r.store.SignIn(t.Context(), r.account(name), in)
	must(t, err)
	return u
}

func (r *service) took() []string {
	log := r.log
	r.log = nil
	return log
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestEnsureNode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, public, init, want string
	}{
		{"nothing is configured", "", "", tokenserver.Self},
		{"a public URL", "https://here.example/sync", "", "https://here.example/sync"},
		{"a public URL that the table cannot store", "https://here.example/" + strings.Repeat("s", 44), "", tokenserver.Self},
		{"a node of its own", "https://here.example", "https://there.example/", "https://there.example"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newService(t, func(o *tokenserver.Options) { o.PublicURL, o.Config.InitNodeURL = c.public, c.init })
			for _, want := range []string{c.want, ""} {
				if got, err := r.EnsureNode(t.Context()); got != want || err != nil {
					t.Errorf("added %q, %v; want %q", got, err, want)
				}
			}
			nodes, err := r.store.ListNodes(t.Context())
			want := []tokenserver.Node{{ID: 1, URL: c.want, Available: 100000, Capacity: 100000}}
			if err != nil || !slices.Equal(nodes, want) {
				t.Errorf("the nodes are %+v, %v", nodes, err)
			}
		})
	}
	long := newService(t, func(o *tokenserver.Options) {
		o.Config.InitNodeURL = "https://there.example/" + strings.Repeat("s", 44)
	})
	if _, err := long.EnsureNode(t.Context()); !errcode.Is(err, errcode.Invalid) {
		t.Errorf("a node that the table cannot store: %v", err)
	}
}

func TestNewServiceRequiresTheHashSecret(t *testing.T) {
	t.Parallel()
	if _, err := tokenserver.NewService(tokenserver.Options{Config: tokenserver.DefaultConfig()}); !errcode.Is(err, errcode.Invalid) {
		t.Errorf("got %v", err)
	}
}

func TestCleanup(t *testing.T) {
	t.Parallel()
	r := newService(t, nil)
	ctx := t.Context()
	r.signIn(t, "alice", 1, tokenserver.Self)
	r.signIn(t, "bob", 1, "https://here.example")
	r.signIn(t, "carol", 1, "https://there.example")
	r.signIn(t, "dave", 1, "https://there.example")
	for _, name := range []string{"alice", "bob", "carol"} {
		r.hands.Advance(time.Hour)
		r.signIn(t, name, 2, "")
	}
	clean := func(want int, took ...string) {
		t.Helper()
		n, err := r.Cleanup(ctx, r.hands.Now(), 10)
		if got := r.took(); n != want || err != nil || !slices.Equal(got, took) {
			t.Errorf("cleaned %d by %q, %v; want %d by %q", n, got, err, want, took)
		}
	}
	r.hands.Set(t0.Add(time.Hour + 7*day))
	clean(0)
	r.hands.Advance(time.Millisecond)
	clean(1, "local self alice")
	r.hands.Advance(day)
	clean(2, "local https://here.example bob", "remote https://there.example carol")
	clean(0)
	users, err := r.store.ListUsers(ctx, 0, 10, true)
	if err != nil || len(users) != 4 {
		t.Errorf("the users are %+v, %v", users, err)
	}
}

func TestCleanupSkipsUnavailableNodes(t *testing.T) {
	t.Parallel()
	r := newService(t, nil)
	ctx := t.Context()
	r.away["https://away.example"] = true
	for i, name := range []string{"a", "b", "c", "d", "e", "f"} {
		node := "https://away.example"
		if i >= 4 {
			node = "https://there.example"
		}
		r.signIn(t, name, 1, node)
		r.signIn(t, name, 2, "")
		r.hands.Advance(time.Second)
	}
	r.hands.Advance(8 * day)
	n, err := r.Cleanup(ctx, r.hands.Now(), 2)
	want := []string{"remote https://away.example a", "remote https://there.example e", "remote https://there.example f"}
	if got := r.took(); n != 2 || !errcode.Is(err, errcode.Unavailable) || !slices.Equal(got, want) {
		t.Errorf("cleaned %d by %q, %v", n, got, err)
	}
	delete(r.away, "https://away.example")
	for _, want := range []int{3, 1, 0} {
		if n, err := r.Cleanup(ctx, r.hands.Now(), 3); n != want || err != nil {
			t.Errorf("cleaned %d, %v; want %d", n, err, want)
		}
	}
}

// TestCleanupWithoutAPurge checks that nothing is purged on a removed node, or for keys in use.
func TestCleanupWithoutAPurge(t *testing.T) {
	t.Parallel()
	r := newService(t, func(o *tokenserver.Options) { o.Config.SpannerNodeID = 1 })
	ctx := t.Context()
	u := r.signIn(t, "alice", 1, "https://spanner.example")
	if u.NodeID != 1 {
		t.Fatalf("the first node has ID %d", u.NodeID)
	}
	_, err := r.store.Replace(ctx, r.account("alice"), r.hands.Now(), false)
	must(t, err)
	moved := r.signIn(t, "alice", 1, "https://spanner.example") // the same keys
	r.hands.Advance(8 * day)
	if n, err := r.Cleanup(ctx, r.hands.Now(), 10); n != 1 || err != nil || len(r.took()) != 0 {
		t.Errorf("keys in use: cleaned %d, %v", n, err)
	}
	_, err = r.store.Replace(ctx, r.account("alice"), r.hands.Now(), true)
	must(t, err)
	r.hands.Advance(8 * day)
	if n, err := r.Cleanup(ctx, r.hands.Now(), 10); n != 1 || err != nil || !slices.Equal(r.took(), []string{"remote https://spanner.example alice"}) {
		t.Errorf("keys of user %d out of use: cleaned %d, %v", moved.UID, n, err)
	}
}

func TestCleanupStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r := newService(t, func(o *tokenserver.Options) { o.Remote = stopping{o.Remote, cancel} })
	for _, name := range []string{"a", "b"} {
		r.signIn(t, name, 1, "https://"+name+".example")
		r.signIn(t, name, 2, "")
	}
	r.hands.Advance(8 * day)
	if n, err := r.Cleanup(ctx, r.hands.Now(), 10); n != 0 || !errors.Is(err, context.Canceled) || len(r.took()) != 1 {
		t.Errorf("cleaned %d, %v", n, err)
	}
}

// stopping cancels a cleanup's context halfway.
type stopping struct {
	tokenserver.Purger
	cancel func()
}

func (s stopping) Purge(ctx context.Context, u tokenserver.DueUser) error {
	s.cancel()
	return s.Purger.Purge(ctx, u)
}

func TestDeleteAccount(t *testing.T) {
	t.Parallel()
	r := newService(t, nil)
	ctx, alice := t.Context(), r.account("alice")
	r.signIn(t, "bob", 1, "https://there.example")
	last := r.signIn(t, "alice", 1, "https://there.example")
	for g := range int64(tokenserver.MaxUsers) { // more than an AccountState contains
		last = r.signIn(t, "alice", g+2, "")
	}

	r.away["https://there.example"] = true
	if n, err := r.DeleteAccount(ctx, alice); n != 0 || !errcode.Is(err, errcode.Unavailable) {
		t.Errorf("deleted %d, %v", n, err)
	}
	if st, err := r.store.AccountState(ctx, alice); err != nil || !st.Users[0].Replaced {
		t.Errorf("a user that could not be deleted is not left to the cleanup: %+v, %v", st, err)
	}
	delete(r.away, "https://there.example")
	r.took()
	n, err := r.DeleteAccount(ctx, alice)
	if took := r.took(); n != tokenserver.MaxUsers+1 || err != nil || len(took) != n || took[0] != "remote https://there.example alice" {
		t.Errorf("deleted %d by %q, %v", n, took, err)
	}
	if back := r.signIn(t, "alice", 1, ""); back.UID <= last.UID {
		t.Errorf("signed in again as %+v", back)
	}
	if _, err := r.DeleteAccount(ctx, tokenserver.Account{}); !errcode.Is(err, errcode.Denied) {
		t.Errorf("an account without an ID: %v", err)
	}
}

// TestDeleteAccountDuringWrites checks that data written with a deleted account's tokens is deleted after they expire,
// then the rows.
func TestDeleteAccountDuringWrites(t *testing.T) {
	t.Parallel()
	for name, interrupted := range map[string]bool{"done": false, "interrupted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newService(t, nil)
			ctx := t.Context()
			u := r.signIn(t, "alice", 1, "https://there.example")
			r.away[u.Node] = interrupted
			if n, err := r.DeleteAccount(ctx, r.account("alice")); (err != nil) != interrupted || n == 0 != interrupted {
				t.Fatalf("deleted %d, %v", n, err)
			}
			delete(r.away, u.Node)
			r.took()
			back := r.signIn(t, "alice", 1, "https://there.example")
			life := tokenserver.DefaultConfig().TokenDuration + 10*time.Minute
			for _, c := range []struct {
				after time.Duration
				want  int
			}{{life, 0}, {life + time.Millisecond, 1}, {day, 0}} {
				r.hands.Set(t0.Add(c.after))
				if n, err := r.Cleanup(ctx, r.hands.Now(), 10); n != c.want || err != nil || len(r.took()) != c.want {
					t.Errorf("%v later cleaned %d, %v; want %d", c.after, n, err, c.want)
				}
			}
			users, err := r.store.ListUsers(ctx, 0, 10, true)
			if err != nil || len(users) != 1 || users[0] != back {
				t.Errorf("the users are %+v, %v; want %+v", users, err, back)
			}
		})
	}
}

func TestCleanupAfterTokens(t *testing.T) {
	t.Parallel()
	r := newService(t, func(o *tokenserver.Options) { o.Config.ReplacedUserGrace = 0 })
	r.signIn(t, "alice", 1, tokenserver.Self)
	r.signIn(t, "alice", 2, "")
	life := tokenserver.DefaultConfig().TokenDuration + 10*time.Minute
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{time.Minute, 0}, {life, 0}, {life + 2*time.Millisecond, 1}} {
		if n, err := r.Cleanup(t.Context(), t0.Add(c.after), 10); n != c.want || err != nil {
			t.Errorf("%v later cleaned %d, %v; want %d", c.after, n, err, c.want)
		}
	}
}

func TestNodeNumbers(t *testing.T) {
	t.Parallel()
	r := newService(t, nil)
	ctx := t.Context()
	const url = "https://a.example"
	for capacity, ok := range map[int64]bool{-1: false, 0: false, 1 << 31: false, 1<<31 - 1: true} {
		if _, err := r.AddNode(ctx, url, capacity); ok != (err == nil) || !ok && !errcode.Is(err, errcode.Invalid) {
			t.Errorf("a capacity of %d: %v", capacity, err)
		}
	}
	for n, ok := range map[int64]bool{-1: false, 0: true, 1 << 31: false, 5: true} {
		for _, change := range []tokenserver.NodeChange{{Capacity: &n}, {Available: &n}} {
			if _, err := r.SetNode(ctx, url, change); ok != (err == nil) || !ok && !errcode.Is(err, errcode.Invalid) {
				t.Errorf("a change to %d: %v", n, err)
			}
		}
	}
}
