package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/secrethash"
	"holdfast/internal/fault"
)

// boundSecret is a secret without which the data of a service is of no use.
type boundSecret struct {
	setting string
	value   string
	old     []string // former secrets that are still accepted
	made    bool     // this process generated it, because there was none
	unsaved bool     // it was generated for this process only
}

// boundSecrets returns the bound secrets of a service, from its settings.
func (a *App) boundSecrets(s *service.Service) (all []boundSecret) {
	add := func(setting, value string, old []string) {
		all = append(all, boundSecret{setting, value, old, a.made[setting], a.unsaved[setting]})
	}
	if s.BoundToMaster {
		masters := a.server().MasterSecrets
		add(masterSetting, masters[0], masters[1:])
	}
	for _, own := range s.Secrets {
		if !own.Bound {
			continue
		}
		var old []string
		if own.Old != nil {
			old = *own.Old
		}
		add(s.Name+"."+own.Name, *own.Setting, old)
	}
	return all
}

// likeness is the result of comparing a secret with the hash in a database.
type likeness int

const (
	unrecorded likeness = iota // the database has no hash
	same
	sameAsOld // the hash is that of an old secret, which is still accepted
	different
)

// hasher caches hashes, because several services are bound to one secret and a hash is
// slow.
type hasher struct {
	mu      sync.Mutex
	matched map[[2]string]func() bool
	made    map[string]func() string
}

// matches reports whether a hash is the hash of a secret.
func (h *hasher) matches(hash secrethash.Hash, text, secret string) bool {
	return once(h, &h.matched, [2]string{text, secret}, func() bool { return hash.Matches(secret) })
}

// hash returns a new hash of a secret, to be recorded.
func (h *hasher) hash(secret string) string {
	return once(h, &h.made, secret, func() string { return secrethash.New(secret) })
}

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

// compare compares the secret with a hash, which is "" if there is none.
func (b *boundSecret) compare(h *hasher, text string) (likeness, error) {
	switch {
	case text == "":
		return unrecorded, nil
	case b.unsaved:
		return different, nil
	}
	hash, err := secrethash.Parse(text)
	switch {
	case err != nil:
		return different, fmt.Errorf("%s: %w", b.setting, err)
	case h.matches(hash, text, b.value):
		return same, nil
	case slices.ContainsFunc(b.old, func(old string) bool { return h.matches(hash, text, old) }):
		return sameAsOld, nil
	}
	return different, nil
}

// comparison is a secret compared with the hash in a database.
type comparison struct {
	boundSecret
	like     likeness
	database *engine.Database
	hash     string // in the database
}

// errNoTable means that the database has no table for hashes yet.
var errNoTable = fault.New(fault.Unavailable, "the table of the secrets' hashes is missing: run holdfast migrate")

// compareSecrets compares the secrets of a service with the hashes in its databases.
// patience is the timeout for each database.
func (s *opened) compareSecrets(ctx context.Context, h *hasher, patience time.Duration) (all []comparison, err error) {
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
			return nil, errNoTable
		}
		for _, b := range s.bound {
			like, err := b.compare(h, hashes[b.setting])
			if err != nil {
				return nil, err
			}
			all = append(all, comparison{b, like, d, hashes[b.setting]})
		}
	}
	return all, nil
}

// verification is the state of verifying the secrets of an open service.
type verification struct {
	mu   sync.Mutex
	done bool
	err  error // of the last attempt; nil when done
}

func (v *verification) set(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.done, v.err = err == nil, err
}

// unverified returns the error of the last attempt; nil after success and before the
// first attempt.
func (v *verification) unverified() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

func (v *verification) isDone() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.done
}

// SecretsError lists the secrets that differ from those that the data was written with.
type SecretsError struct{ Lines []string }

func (e *SecretsError) Error() string { return strings.Join(e.Lines, "\n") }

// Timeouts for reading and recording hashes on a database server.
const (
	startPatience = 2 * time.Second // before the server serves
	patience      = 10 * time.Second
)

// verifySecrets compares the secrets of every service with the hashes in its
// databases, and records hashes of those that have none yet. If a secret differs, it
// returns a *SecretsError and records nothing: the secrets of all services come from
// one place, so the others may be wrong, too. Services that are already verified or
// whose database server is unavailable are skipped.
func (a *App) verifySecrets(ctx context.Context, patience time.Duration) error {
	for {
		all, err := a.compareAll(ctx, patience)
		if err != nil {
			return err
		}
		if wrong := a.differences(all); len(wrong) > 0 && !a.newSecrets {
			return &SecretsError{wrong}
		}
		conflict, err := a.recordAll(ctx, patience, all)
		if err != nil || !conflict {
			return err
		}
	}
}

// recordAll records the missing hashes. conflict means that another process recorded
// one first, so all secrets must be compared again. Database servers come before files:
// if two processes with different generated secrets start at once, one of them gets a
// conflict on the first secret that they share, before it has recorded any hash in its
// own files.
func (a *App) recordAll(ctx context.Context, patience time.Duration, all map[*opened][]comparison) (conflict bool, err error) {
	servers, files := a.byPlace()
	for _, s := range servers {
		found, compared := all[s]
		if !compared {
			continue
		}
		conflict, err := a.record(ctx, patience, found)
		if conflict {
			return true, nil
		}
		s.secrets.set(err)
	}
	if len(a.made) > 0 && slices.ContainsFunc(servers, func(s *opened) bool { return !s.secrets.isDone() }) {
		return false, nil // a database server that is unavailable may have hashes of other secrets
	}
	for _, s := range files {
		found, compared := all[s]
		if !compared {
			continue
		}
		if conflict, err := a.record(ctx, patience, found); conflict || err != nil {
			return conflict, err
		}
		s.secrets.set(nil)
	}
	return false, nil
}

// byPlace returns the services that have a database on a server, and those whose
// databases are SQLite files.
func (a *App) byPlace() (servers, files []*opened) {
	for _, s := range a.opened {
		if s.Embedded() {
			files = append(files, s)
		} else {
			servers = append(servers, s)
		}
	}
	return servers, files
}

// compareAll compares the secrets of all services that are not verified yet, and returns an
// error if one of them must not write. It does so in parallel, because hashing takes most of the time of a start.
func (a *App) compareAll(ctx context.Context, patience time.Duration) (map[*opened][]comparison, error) {
	var mu sync.Mutex
	all := map[*opened][]comparison{}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, s := range a.opened {
		if s.secrets.isDone() {
			continue
		}
		g.Go(func() error {
			if err := checkWhole(ctx, s.Running, patience); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			found, err := s.compareSecrets(ctx, &a.hasher, patience)
			if err != nil {
				s.secrets.set(err)
				if s.Embedded() {
					return fmt.Errorf("%s: %w", s.Name, err)
				}
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			all[s] = found
			return nil
		})
	}
	return all, g.Wait()
}

// differences describes each secret that differs in one or more databases.
func (a *App) differences(all map[*opened][]comparison) (lines []string) {
	by := map[string][]comparison{}
	var settings []string
	for _, s := range a.opened {
		for _, c := range all[s] {
			if c.like != different || c.unsaved {
				continue
			}
			if by[c.setting] == nil {
				settings = append(settings, c.setting)
			}
			by[c.setting] = append(by[c.setting], c)
		}
	}
	for _, setting := range settings {
		says, fix := describe(by[setting], a.data)
		lines = append(lines, says+"; "+fix)
	}
	return lines
}

// describe describes a secret that differs in some databases, and how to fix it.
func describe(all []comparison, data string) (says, fix string) {
	file := secretsPath(data, SecretsFile)
	var users []string
	for _, c := range all {
		users = append(users, fmt.Sprintf("%s (%s)", c.database.Service, c.database.Where))
	}
	setting, with := all[0].setting, strings.Join(users, " and ")
	section, key, _ := strings.Cut(setting, ".")
	says = fmt.Sprintf("%s is not the secret that the data was written with: %s", setting, with)
	if all[0].made {
		says = fmt.Sprintf("%s is lost: neither %s nor the configuration has it, and data was written with one: %s", setting, file, with)
	}
	left := leftSecrets(data)
	for _, f := range left {
		if f.hasSecret(all) {
			return says, fmt.Sprintf("%s, which an interrupted start left, has this secret: run: mv %s %s", f.path, f.path, file)
		}
	}
	var others strings.Builder
	for _, f := range left {
		fmt.Fprintf(&others, "; %s, which an interrupted start left, does not have it", f.path)
	}
	return says + others.String(), fmt.Sprintf("restore %s from a backup, or set the former secret as %s or in %s.old_%ss; to go on without it: holdfast serve --new-secrets",
		file, setting, section, key)
}

// hasSecret reports whether the file has the secret that the databases have hashes of.
func (f *leftFile) hasSecret(all []comparison) bool {
	return !slices.ContainsFunc(all, func(c comparison) bool {
		hash, err := secrethash.Parse(c.hash)
		return err != nil || f.err != nil || !hash.Matches(f.values[c.setting])
	})
}

// record records the secrets that have no hash or a different one. conflict means that
// another process recorded one first.
func (a *App) record(ctx context.Context, patience time.Duration, all []comparison) (conflict bool, err error) {
	for _, c := range all {
		if c.like == same || c.unsaved {
			continue
		}
		hash := a.hasher.hash(c.value)
		write, cancel := context.WithTimeout(ctx, patience)
		changed, err := c.database.SetSecretHash(write, c.setting, c.hash, hash)
		cancel()
		if err != nil {
			return false, fmt.Errorf("%s: %w", c.database.Service, err)
		}
		if !changed {
			return true, nil
		}
		a.recorded = true
		if c.like == different {
			a.log.Warn("accepted a new secret, tokens signed with the former one are refused", "setting", c.setting, "service", c.database.Service)
		}
	}
	return false, nil
}

// startSecrets verifies the secrets before the server serves.
func (a *App) startSecrets(ctx context.Context) error {
	if says := a.cfg.shortMaster(); says != "" {
		a.log.Warn(says, "setting", masterSetting)
	}
	err := a.verifySecrets(ctx, startPatience)
	if _, wrong := errors.AsType[*SecretsError](err); wrong && a.newFile && !a.recorded {
		// The file with the right secrets is lost, and the new one is of no use.
		err = errors.Join(err, os.Remove(filepath.Join(a.data, SecretsFile)))
	}
	return err
}

// shortMaster returns a warning if the master secret is short enough to be guessed.
func (c *Config) shortMaster() string {
	n := utf8.RuneCountInString(c.Server.MasterSecret.Reveal())
	if n == 0 || n >= minMasterSecret {
		return ""
	}
	return fmt.Sprintf("%s has %s, fewer than %d: anyone who guesses it can read and change the records of every user", masterSetting, service.Count(int64(n), "character"), minMasterSecret)
}

// awaitSecrets verifies the secrets of services whose database server was unavailable at
// the start. It returns an error if a secret differs.
func (a *App) awaitSecrets(ctx context.Context) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if !slices.ContainsFunc(a.opened, func(s *opened) bool { return !s.secrets.isDone() }) {
			debug.FreeOSMemory() // hashing took about 10 MB
			return nil
		}
		if !clock.Sleep(ctx, pause) {
			return nil
		}
		if err := a.verifySecrets(ctx, patience); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// migrateSecrets records the hashes of configured and saved secrets after a migration.
// Secrets that do not exist yet are generated by the first start.
func (a *App) migrateSecrets(ctx context.Context) error {
	err := a.verifySecrets(ctx, patience)
	for _, s := range a.opened {
		if e := s.secrets.unverified(); e != nil && err == nil {
			err = fmt.Errorf("%s: %w", s.Name, e)
		}
	}
	return err
}
