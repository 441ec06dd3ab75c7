// Package tokenserver contains the accounts workload for all services' fault tests.
package tokenserver

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	program "holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// Service returns sign-ins under faults. After an acknowledged sign-in, the account must keep its storage user until
// its keys change, no other account or keys may ever get that user, and earlier generations must be refused.
func Service() harness.Service {
	return harness.Service{
		Name: "tokenserver", Section: "TOKENSERVER",
		Vars: Vars(),
		Workload: func(_ *testing.T, few bool) harness.Workload {
			w := &accountsWorkload{given: map[int64]string{}}
			w.add(map[bool]int{true: 2, false: 4}[few])
			return w
		},
		SomeRows: `SELECT 1 FROM users WHERE email LIKE 'account-1@%' FOR UPDATE`,
		Locks: []string{
			`SELECT 1 FROM users FOR UPDATE`,
			`LOCK TABLE users IN ACCESS EXCLUSIVE MODE`,
			`LOCK TABLE nodes IN ACCESS EXCLUSIVE MODE`,
		},
		Next: harness.NextRelease{Migrations: map[string]string{
			"internal/tokenserver/sqlite":   `ALTER TABLE users ADD COLUMN future BIGINT;`,
			"internal/tokenserver/postgres": `ALTER TABLE users ADD COLUMN future BIGINT;`,
		}},
	}
}

// Key signs all tokens. Creating it takes 0.1 s.
var Key = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// accountsTokens caches tokens by claims, because signing takes longer than a request.
var accountsTokens sync.Map

func accountsToken(account string, generation int64) (string, error) {
	claims := fmt.Sprintf("%s %d", account, generation)
	if token, ok := accountsTokens.Load(claims); ok {
		return token.(string), nil
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: Key(), KeyID: "fault"}},
		(&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		return "", err
	}
	token, err := jwt.Signed(signer).Claims(map[string]any{
		"sub": account, "scope": "https://identity.mozilla.com/apps/oldsync", "exp": time.Now().Add(10 * 365 * 24 * time.Hour).Unix(),
		"fxa-generation": generation,
	}).Serialize()
	if err == nil {
		accountsTokens.Store(claims, token)
	}
	return token, err
}

// Vars makes a server trust the key.
func Vars() []string {
	raw, err := (&jose.JSONWebKey{Key: Key().Public(), KeyID: "fault", Algorithm: "RS256", Use: "sig"}).MarshalJSON()
	if err != nil {
		panic(err)
	}
	var k struct{ Kty, Kid, N, E string }
	if err := json.Unmarshal(raw, &k); err != nil {
		panic(err)
	}
	const prefix = "HOLDFAST_TOKENSERVER__FXA_OAUTH_PRIMARY_JWK__"
	return []string{prefix + "KTY=" + k.Kty, prefix + "KID=" + k.Kid, prefix + "N=" + k.N, prefix + "E=" + k.E}
}

type accountsWorkload struct {
	browsers []*browser

	mu    sync.Mutex
	given map[int64]string // account and keys, by storage user
}

type browser struct {
	n      int
	of     *accountsWorkload
	choose *mathrand.Rand

	state   progress
	past    progress
	trail   []progress
	lost    *progress
	refused bool // refused on every attempt
}

// progress is an account's state. Each state has a higher generation; in some states the keys change, too.
type progress struct {
	generation, keys int64 // keys is the generation when the keys last changed; 0 if the account never signed in
	uid              int64 // storage user; 0 if unknown after a lost response
	sent, acked      int64 // by the harness clock
}

func (p progress) String() string {
	return fmt.Sprintf("generation %d, keys of %d", p.generation, p.keys)
}

func (w *accountsWorkload) add(n int) {
	for range n {
		w.browsers = append(w.browsers, &browser{n: len(w.browsers), of: w})
	}
}

func (w *accountsWorkload) Grow(_ *testing.T, n int) { w.add(max(0, n-len(w.browsers))) }

func (w *accountsWorkload) Clients(h *harness.Harness, l *harness.Load) []harness.Client {
	return harness.Clients(w.browsers, func(b *browser, choose *mathrand.Rand) {
		b.choose, b.trail = choose, []progress{b.state}
		b.run(h, l)
	})
}

// run signs in until the fault ends. It repeats a sign-in without a response, because sign-ins are idempotent.
func (b *browser) run(h *harness.Harness, l *harness.Load) {
	h.Drive(l, func() (harness.Result, error) {
		p := b.next()
		if b.lost != nil {
			p = *b.lost
			harness.Pause(l.Over, 20*time.Millisecond)
		} else {
			p.sent = h.Clock.Add(1)
		}
		a, answered := h.Judge(l, "SIGN-IN", b.name(), func() (program.Answer, error) { return b.send(h, h.ServerOf(b.n), p) })
		if answered {
			b.lost = nil
			return harness.Acknowledged, b.took(h, p, a)
		}
		if p.generation > b.state.generation {
			b.refused = (b.refused || b.lost == nil) && harness.Unavailable(a)
			b.lost = &p
		}
		return harness.Lost, nil
	})
}

// next chooses a sign-in: as before, with new keys, with another password, or with outdated credentials.
func (b *browser) next() progress {
	p := b.state
	switch n := b.choose.IntN(8); {
	case p.keys == 0 || n < 2:
		p.generation++
		p.keys, p.uid = p.generation, 0 // new keys get a new storage user
	case n < 4:
		p.generation++
	case n < 6 && b.past.keys > 0:
		return b.past
	}
	return p
}

func (b *browser) name() string { return fmt.Sprintf("account-%d", b.n) }

func (b *browser) send(h *harness.Harness, to *program.Server, p progress) (a program.Answer, err error) {
	token, err := accountsToken(b.name(), p.generation)
	if err != nil {
		return a, err
	}
	req, err := http.NewRequestWithContext(h.T.Context(), http.MethodGet, to.URL+"/1.0/sync/1.5", nil)
	if err != nil {
		return a, err
	}
	state := binary.BigEndian.AppendUint64(make([]byte, 8), uint64(p.keys))
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("X-KeyID", fmt.Sprintf("%d-%s", p.keys, base64.RawURLEncoding.EncodeToString(state)))
	resp, err := h.Client.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return program.Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}, err
}

func (b *browser) took(h *harness.Harness, p progress, a program.Answer) error {
	if p.generation < b.state.generation {
		if a.Status != http.StatusUnauthorized {
			return fmt.Errorf("%s at %v signed in at %v: %d %s", b.name(), b.state, p, a.Status, a.Body)
		}
		return nil
	}
	uid, err := uidOf(a)
	if err != nil {
		return fmt.Errorf("%s at %v: %w", b.name(), p, err)
	}
	return b.reached(h, p, uid)
}

func uidOf(a program.Answer) (int64, error) {
	var c program.Credentials
	if a.Status != http.StatusOK {
		return 0, fmt.Errorf("%d %s", a.Status, a.Body)
	}
	if err := json.Unmarshal([]byte(a.Body), &c); err != nil || c.UID < 1 {
		return 0, fmt.Errorf("%s: %w", a.Body, err)
	}
	return c.UID, nil
}

func (b *browser) reached(h *harness.Harness, p progress, uid int64) error {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	whose := fmt.Sprintf("%s with keys of %d", b.name(), p.keys)
	if other := b.of.given[uid]; other != "" && other != whose {
		return fmt.Errorf("%s and %s both have the storage user %d", other, whose, uid)
	}
	if b.of.given[uid] = whose; p.keys == b.state.keys && uid != b.state.uid {
		return fmt.Errorf("%s at %v: storage user %d, previously %d", b.name(), p, uid, b.state.uid)
	}
	if p.uid = uid; p.generation > b.state.generation {
		p.acked = h.Clock.Add(1)
		b.trail = append(b.trail, p)
		b.past, b.state = b.state, p
	}
	return nil
}

func (w *accountsWorkload) Unanswered() (all []string) {
	for _, b := range w.browsers {
		if b.lost != nil {
			all = append(all, fmt.Sprintf("%s at %v", b.name(), b.lost))
		}
	}
	return all
}

// Check first tests that the account is counted and its earlier state is refused, because this changes nothing.
// Another sign-in would repeat a lost sign-in.
func (w *accountsWorkload) Check(h *harness.Harness) {
	h.T.Helper()
	w.counted(h)
	for _, b := range w.browsers {
		if err := errors.Join(b.refusesSuperseded(h), b.settle(h)); err != nil {
			h.T.Error(err)
		}
	}
}

// settle finds out whether a sign-in without a response took effect.
func (b *browser) settle(h *harness.Harness) error {
	done, err := b.isSuperseded(h)
	if err != nil || b.lost == nil {
		return err
	}
	p := *b.lost
	b.lost = nil
	h.Decided(p, b.refused, done)
	a, err := b.send(h, h.Server, p)
	if err != nil {
		return err
	}
	return b.took(h, p, a)
}

// isSuperseded signs in with the last acknowledged state. The server refuses that state if the sign-in without a
// response took effect.
func (b *browser) isSuperseded(h *harness.Harness) (bool, error) {
	if b.state.keys == 0 {
		return false, nil
	}
	a, err := b.send(h, h.Server, b.state)
	if err == nil && b.lost != nil && a.Status == http.StatusUnauthorized {
		return true, nil
	}
	if err == nil {
		err = b.took(h, b.state, a)
	}
	if err != nil {
		return false, fmt.Errorf("%s, no response at %v: %w", b.name(), b.lost, err)
	}
	return false, nil
}

// refusesSuperseded checks that the server refuses the state before the last change.
func (b *browser) refusesSuperseded(h *harness.Harness) error {
	if b.past.keys == 0 {
		return nil
	}
	a, err := b.send(h, h.Server, b.past)
	if err != nil {
		return err
	}
	return b.took(h, b.past, a)
}

// counted checks that every account that signed in uses one place on the node. An account whose first sign-in got no
// response may use one.
func (w *accountsWorkload) counted(h *harness.Harness) {
	h.T.Helper()
	least, most := 0, 0
	for _, b := range w.browsers {
		if b.state.keys > 0 {
			least++
		}
		if b.state.keys > 0 || b.lost != nil {
			most++
		}
	}
	table := h.Server.Verb("tokenserver", "nodes", "list")
	for line := range strings.Lines(table) {
		if row := strings.Fields(line); len(row) > 2 && row[0] == "self" {
			if n, err := strconv.Atoi(row[1]); err != nil || n < least || n > most {
				h.T.Errorf("want %d to %d accounts on the node:\n%s", least, most, table)
			}
			return
		}
	}
	h.T.Errorf("the node is missing:\n%s", table)
}

// CheckCopy finds each account's state in a copy: the first state that the copy does not refuse. A copy accepts an
// account that never signed in as new.
func (w *accountsWorkload) CheckCopy(h *harness.Harness, begun, ended int64, _ bool) {
	h.T.Helper()
	for _, b := range w.browsers {
		steps := slices.Clone(b.trail)
		if b.lost != nil {
			steps = append(steps, *b.lost)
		}
		at, err := b.found(h, steps)
		switch {
		case err != nil:
			h.T.Error(err)
		case steps[at].sent > ended || at+1 < len(b.trail) && b.trail[at+1].acked < begun:
			h.T.Errorf("copy: %s at %v, not a state from %d to %d: %+v", b.name(), steps[at], begun, ended, steps)
		}
	}
}

// found returns the index of the state that a copy contains.
func (b *browser) found(h *harness.Harness, steps []progress) (at int, err error) {
	for i, p := range steps {
		if p.keys == 0 {
			continue
		}
		a, err := b.send(h, h.Server, p)
		if err != nil {
			return 0, err
		}
		if a.Status == http.StatusUnauthorized {
			continue
		}
		uid, err := uidOf(a)
		switch {
		case err != nil:
			return 0, fmt.Errorf("copy: %s at %v: %w", b.name(), p, err)
		case p.uid == 0 || uid == p.uid:
			return i, nil
		case i > 0 && steps[i-1].keys == 0:
			return i - 1, nil
		}
		return 0, fmt.Errorf("copy: %s at %v: storage user %d, previously %d", b.name(), p, uid, p.uid)
	}
	if len(steps) == 1 && steps[0].keys == 0 {
		return 0, nil
	}
	return 0, fmt.Errorf("copy refuses %s in every state: %+v", b.name(), steps)
}

func (w *accountsWorkload) Finish(h *harness.Harness) {
	h.T.Helper()
	w.counted(h)
}

func (w *accountsWorkload) Probe(h *harness.Harness, to *program.Server) (program.Answer, error) {
	return (&browser{n: harness.ProbeUser}).send(h, to, progress{generation: 1, keys: 1})
}

// Reads skips accounts with a lost sign-in response, because the server may refuse their earlier state.
func (w *accountsWorkload) Reads(h *harness.Harness) (all []func() (program.Answer, error)) {
	for _, b := range w.browsers {
		if b.state.keys > 0 && b.lost == nil {
			all = append(all, func() (program.Answer, error) { return b.send(h, h.ServerOf(b.n), b.state) })
		}
	}
	return all
}
