package secrets

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/secrethash"
	"holdfast/internal/errcode"
)

// Bound is a secret without which a service's data is useless.
type Bound struct {
	Setting string // SECTION.KEY
	Value   string
	Old     []string // former secrets that the operator still accepts
	Made    bool     // by this process
	Unsaved bool     // for this process only
}

// Guard verifies, by hashes in each database, that a server uses the secrets that its data was written with.
type Guard struct {
	Data       string // data folder
	Log        *slog.Logger
	NewSecrets bool            // --new-secrets: accept and record different secrets
	Made       map[string]bool // settings that this process generated
	NewFile    bool            // this process created the secrets file

	// Writable returns an error if a service's database must not be written, because it is an incomplete copy.
	Writable func(ctx context.Context, s *service.Running, patience time.Duration) error

	services []*guarded
	hasher   hasher
	recorded bool // this process recorded a hash
}

// guarded is a service with its secrets and whether they are verified.
type guarded struct {
	*service.Running

	bound []Bound
	verification
}

// Add adds an opened service. Call it before Start.
func (g *Guard) Add(s *service.Running, bound []Bound) {
	g.services = append(g.services, &guarded{Running: s, bound: bound})
}

// Unverified returns why a service's secrets could not be verified yet. It returns nil before the first attempt.
func (g *Guard) Unverified(name string) error {
	if s := g.find(name); s != nil {
		return s.unverified()
	}
	return nil
}

// find returns nil for an unknown service.
func (g *Guard) find(name string) *guarded {
	i := slices.IndexFunc(g.services, func(s *guarded) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return g.services[i]
}

// Likeness is the result of comparing a secret with a stored hash.
type Likeness int

// These are the results of a comparison.
const (
	Unrecorded Likeness = iota // no hash is stored yet
	Same
	SameAsOld
	Different
)

// hasher caches slow hashes, because services share secrets.
type hasher struct {
	mu      sync.Mutex
	matched map[[2]string]func() bool
	made    map[string]func() string
}

// matches reports whether a hash, parsed from text, is the secret's.
func (h *hasher) matches(hash secrethash.Hash, text, secret string) bool {
	return once(h, &h.matched, [2]string{text, secret}, func() bool { return hash.Matches(secret) })
}

// hash returns a new secret hash, the same for each call.
func (h *hasher) hash(secret string) string {
	return once(h, &h.made, secret, func() string { return secrethash.New(secret) })
}

// once calls fn once for each key. Callers with the same key wait.
func once[K comparable, V any](h *hasher, results *map[K]func() V, key K, fn func() V) V {
	h.mu.Lock()
	if *results == nil {
		*results = map[K]func() V{}
	}
	if (*results)[key] == nil {
		(*results)[key] = sync.OnceValue(fn)
	}
	result := (*results)[key]
	h.mu.Unlock()
	return result()
}

// compare compares the secret with a stored hash; text "" means none is stored. A secret for this process only is
// always different.
func (b *Bound) compare(h *hasher, text string) (Likeness, error) {
	switch {
	case text == "":
		return Unrecorded, nil
	case b.Unsaved:
		return Different, nil
	}
	hash, err := secrethash.Parse(text)
	switch {
	case err != nil:
		return Different, fmt.Errorf("%s: %w", b.Setting, err)
	case h.matches(hash, text, b.Value):
		return Same, nil
	case slices.ContainsFunc(b.Old, func(old string) bool { return h.matches(hash, text, old) }):
		return SameAsOld, nil
	}
	return Different, nil
}

// Comparison is a secret's comparison with a stored hash.
type Comparison struct {
	Bound

	Like     Likeness
	database *engine.Database
	hash     string // stored, or ""
}

// ErrNoTable means that the hash table is missing.
var ErrNoTable = errcode.New(errcode.Unavailable, "the table for the secrets' hashes is missing: run holdfast migrate")

// Compare compares a service's secrets with all its databases, for holdfast check. It records nothing. ErrNoTable
// means that a migration is pending.
func (g *Guard) Compare(ctx context.Context, name string) (all []Comparison, err error) {
	if s := g.find(name); s != nil {
		return s.compare(ctx, &g.hasher, patience)
	}
	return nil, nil
}

// compare applies patience to each database.
func (s *guarded) compare(ctx context.Context, h *hasher, patience time.Duration) (all []Comparison, err error) {
	if len(s.bound) == 0 {
		return nil, nil
	}
	for _, d := range s.Databases {
		read, cancel := context.WithTimeout(ctx, patience)
		hashes, err := d.SecretHashes(read)
		cancel()
		if err != nil {
			return nil, err
		}
		if hashes == nil {
			return nil, ErrNoTable
		}
		for _, b := range s.bound {
			like, err := b.compare(h, hashes[b.Setting])
			if err != nil {
				return nil, err
			}
			all = append(all, Comparison{b, like, d, hashes[b.Setting]})
		}
	}
	return all, nil
}

// verification says whether a service was verified. The zero value: not tried yet.
type verification struct {
	mu   sync.Mutex
	done bool
	err  error
}

func (v *verification) set(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.done, v.err = err == nil, err
}

func (v *verification) unverified() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

// isDone reports a success, which is final.
func (v *verification) isDone() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.done
}

// DifferentError lists secrets that differ from those with which the data was written.
type DifferentError struct{ Lines []string }

func (e *DifferentError) Error() string { return strings.Join(e.Lines, "\n") }

const (
	startPatience = 2 * time.Second  // for each database at the start, which a database that is down must not delay
	patience      = 10 * time.Second // for each database later
)

// verify returns a *DifferentError and records nothing if any secret differs: all secrets share a source, so the others
// may be wrong, too. It skips services that are verified or whose server is down.
func (g *Guard) verify(ctx context.Context, patience time.Duration) error {
	for {
		all, err := g.compareAll(ctx, patience)
		if err != nil {
			return err
		}
		if differences := g.differences(all); len(differences) > 0 && !g.NewSecrets {
			return &DifferentError{differences}
		}
		conflict, err := g.recordAll(ctx, patience, all)
		if err != nil || !conflict {
			return err
		}
	}
}

// recordAll records missing hashes. It returns a conflict if another process was first; then compare again. Database
// servers come before files: of two processes with different generated secrets, one gets a conflict on the first
// shared secret before recording anything in its own files.
func (g *Guard) recordAll(ctx context.Context, patience time.Duration, all map[*guarded][]Comparison) (conflict bool, err error) {
	servers, files := g.byPlace()
	for _, s := range servers {
		comparisons, compared := all[s]
		if !compared {
			continue
		}
		conflict, err := g.record(ctx, patience, comparisons)
		if conflict {
			return true, nil
		}
		s.set(err)
	}
	if len(g.Made) > 0 && slices.ContainsFunc(servers, func(s *guarded) bool { return !s.isDone() }) {
		return false, nil // an unavailable server may have other hashes
	}
	for _, s := range files {
		comparisons, compared := all[s]
		if !compared {
			continue
		}
		if conflict, err := g.record(ctx, patience, comparisons); conflict || err != nil {
			return conflict, err
		}
		s.set(nil)
	}
	return false, nil
}

// byPlace separates services with database servers from those with files only.
func (g *Guard) byPlace() (servers, files []*guarded) {
	for _, s := range g.services {
		if s.Embedded() {
			files = append(files, s)
		} else {
			servers = append(servers, s)
		}
	}
	return servers, files
}

// compareAll compares unverified services in parallel, because hashing dominates a start. It fails if any must not
// write.
func (g *Guard) compareAll(ctx context.Context, patience time.Duration) (map[*guarded][]Comparison, error) {
	var mu sync.Mutex
	all := map[*guarded][]Comparison{}
	var comparing errgroup.Group
	comparing.SetLimit(runtime.GOMAXPROCS(0))
	for _, s := range g.services {
		if s.isDone() {
			continue
		}
		comparing.Go(func() error {
			if err := g.Writable(ctx, s.Running, patience); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			comparisons, err := s.compare(ctx, &g.hasher, patience)
			if err != nil {
				s.set(err)
				if s.Embedded() {
					return fmt.Errorf("%s: %w", s.Name, err)
				}
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			all[s] = comparisons
			return nil
		})
	}
	return all, comparing.Wait()
}

// differences returns a line with advice for each secret that differs, with all databases that it affects.
func (g *Guard) differences(all map[*guarded][]Comparison) (lines []string) {
	by := map[string][]Comparison{}
	var settings []string
	for _, s := range g.services {
		for _, c := range all[s] {
			if c.Like != Different || c.Unsaved {
				continue
			}
			if by[c.Setting] == nil {
				settings = append(settings, c.Setting)
			}
			by[c.Setting] = append(by[c.Setting], c)
		}
	}
	for _, setting := range settings {
		says, fix := Describe(by[setting], g.Data)
		lines = append(lines, says+"; "+fix)
	}
	return lines
}

// Describe describes a differing secret, with advice.
func Describe(all []Comparison, data string) (says, fix string) {
	file := Path(data, File)
	var users []string
	for _, c := range all {
		users = append(users, fmt.Sprintf("%s (%s)", c.database.Service, c.database.Where))
	}
	setting, with := all[0].Setting, strings.Join(users, " and ")
	section, key, _ := strings.Cut(setting, ".")
	says = fmt.Sprintf("%s is not the secret that the data was written with: %s", setting, with)
	if all[0].Made {
		says = fmt.Sprintf("%s is lost: neither %s nor the configuration contains it, but data was written with it: %s", setting, file, with)
	}
	left := Left(data)
	for _, f := range left {
		if f.hasSecret(all) {
			return says, fmt.Sprintf("%s, left by an interrupted start, contains this secret: run: mv %s %s", f.path, f.path, file)
		}
	}
	var others strings.Builder
	for _, f := range left {
		fmt.Fprintf(&others, "; %s, left by an interrupted start, does not contain it", f.path)
	}
	return says + others.String(), fmt.Sprintf("restore %s from a backup, or set the old secret as %s or in %s.old_%ss; to continue without it: holdfast serve --new-secrets",
		file, setting, section, key)
}

// hasSecret reports whether the file has every compared secret.
func (f *LeftFile) hasSecret(all []Comparison) bool {
	return !slices.ContainsFunc(all, func(c Comparison) bool {
		hash, err := secrethash.Parse(c.hash)
		return err != nil || f.err != nil || !hash.Matches(f.values[c.Setting])
	})
}

// record stores hashes that are missing or change. conflict means that another process changed one first.
func (g *Guard) record(ctx context.Context, patience time.Duration, all []Comparison) (conflict bool, err error) {
	for _, c := range all {
		if c.Like == Same || c.Unsaved {
			continue
		}
		hash := g.hasher.hash(c.Value)
		write, cancel := context.WithTimeout(ctx, patience)
		changed, err := c.database.SetSecretHash(write, c.Setting, c.hash, hash)
		cancel()
		if err != nil {
			return false, fmt.Errorf("%s: %w", c.database.Service, err)
		}
		if !changed {
			return true, nil
		}
		g.recorded = true
		if c.Like == Different {
			g.Log.Warn("accepted a new secret, tokens signed with the old secret are refused", "setting", c.Setting, "service", c.database.Service)
		}
	}
	return false, nil
}

// Start verifies the secrets before the server accepts requests. A *DifferentError must end the start. Services whose
// database server is down are left to Await.
func (g *Guard) Start(ctx context.Context) error {
	err := g.verify(ctx, startPatience)
	if _, differs := errors.AsType[*DifferentError](err); differs && g.NewFile && !g.recorded {
		// The file with the right secrets is lost, and the new file is useless.
		err = errors.Join(err, os.Remove(filepath.Join(g.Data, File)))
	}
	return err
}

// ShortMaster returns a warning if a master secret can be guessed.
func ShortMaster(master string) string {
	short := ShortToken(master)
	if short == "" {
		return ""
	}
	return Master + " " + short + ": anyone who guesses it can read and change the records of every user"
}

// Await verifies services whose database server was down at the start. It fails if a secret differs.
func (g *Guard) Await(ctx context.Context) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if !slices.ContainsFunc(g.services, func(s *guarded) bool { return !s.isDone() }) {
			debug.FreeOSMemory() // hashing took about 10 MB
			return nil
		}
		if !clock.Sleep(ctx, pause) {
			return nil
		}
		if err := g.verify(ctx, patience); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// Record is Start for a command: it fails also if a service could not be verified.
func (g *Guard) Record(ctx context.Context) error {
	err := g.verify(ctx, patience)
	for _, s := range g.services {
		if e := s.unverified(); e != nil && err == nil {
			err = fmt.Errorf("%s: %w", s.Name, e)
		}
	}
	return err
}
