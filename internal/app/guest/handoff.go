package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/auth/bearer"
	"holdfast/internal/db/engine"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/bots"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/guest/httpapi"
	"holdfast/internal/guest/sqlite"
	"holdfast/internal/ident"
	"holdfast/internal/obs"
	"holdfast/internal/web"
)

// handoffParts are the parts that use the handoff secret: handoffs, their keys, bot detection and service tokens.
type handoffParts struct {
	*handoffs.Service
	Keys *handoffs.Keys
	bots *bots.Service // nil: no bot scoring
	deps *service.Deps
	// tokens signs and verifies service tokens, with keys derived from the handoff secrets.
	tokens *bearer.Keyring
	// embedded says that the database is a SQLite file, which an operator may replace with an old copy.
	embedded bool

	afterRestore service.RestoreStep
}

const (
	// handoffSecret is the secret's name in service.Deps.Unsaved.
	handoffSecret = Name + ".handoff_secret"

	// maxTTL is the longest lifetime of a service token, which cannot be revoked by itself.
	maxTTL = 90 * 24 * time.Hour
	leeway = 30 * time.Minute // between server clocks; tokens last for days
)

// openHandoffs needs the parts of newParts. It does not read the database, whose migrations come later.
func (s *Guest) openHandoffs(d *service.Deps, p *parts, st backend.Store, db *engine.Database) (*handoffParts, error) {
	secret, old := s.cfg.HandoffSecret, s.cfg.OldHandoffSecrets
	keys, err1 := handoffs.NewKeys(st, secret, old, s.cfg.HandoffIssuer)
	hasher, err2 := guest.NewHasher(secret, old)
	tokens, err3 := tokenKeys(append([]string{secret}, old...))
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	scorer, err := s.openBots(p, st, hasher, d.Metrics)
	if err != nil {
		return nil, err
	}
	h := &handoffParts{Keys: keys, bots: scorer, deps: d, tokens: tokens, embedded: db.Embedded()}
	h.Service = handoffs.New(handoffs.Options{
		Guests: p.guests, Store: st, Catalogue: p.catalogue, Clock: d.Clock, Bots: scorer,
		Keys: keys, Hasher: hasher, Life: s.cfg.HandoffLife, Site: s.sites(p.source), Restored: h.warnRestored,
	})
	h.afterRestore = service.RestoreStep{
		Doc: "revoking handoff keys, because handoffs that are open in the backup may have been consumed since",
		Run: func(ctx context.Context, _ service.Restored) error {
			_, err := keys.RevokeAll(ctx)
			return err
		},
	}
	if h.embedded {
		db.AfterBackup = func(ctx context.Context, copied *sqlitedb.DB) error {
			return errors.Join(sqlite.EraseKeys(ctx, copied, d.Clock()), newEpoch(ctx, copied.Rows()), sqlite.New(copied, d.Clock, nil).ForgetHot(ctx))
		}
	}
	return h, nil
}

// mount returns the routes for booking sites, on the internal listener: they need a service token.
func (h *handoffParts) mount(m *obs.Metrics) service.Mount {
	receiver := &httpapi.Receiver{Handoffs: h.Service, Tokens: h.tokens, Clock: h.deps.Clock, Count: countConsumes(m)}
	return service.Mount{Listener: service.Internal, Paths: []string{"/internal/handoff/ID/consume", "/internal/handoff/ID/verify", "/internal/handoff/ID/remove-items"}, Mount: web.Mount{
		Owns: httpapi.OwnsReceiver, Service: web.Service{Serve: receiver.Serve, Error: httpapi.WriteError, Route: httpapi.LabelReceiver, Routes: httpapi.ReceiverRoutes()},
	}}
}

// tokenKeys derives the keys of service tokens. The first secret signs; all verify.
func tokenKeys(secrets []string) (*bearer.Keyring, error) {
	keys, err := bearer.DerivedKeys(secrets, "guest")
	if err != nil {
		return nil, err
	}
	return bearer.NewKeyring(bearer.Options{Keys: keys, Audience: httpapi.Audience, Leeway: leeway, MaxLifetime: maxTTL})
}

// isSaved returns an error if the handoff secret exists only in this process, e.g. in a command before the server's
// first start, because no server could decrypt the keys.
func (h *handoffParts) isSaved() error {
	if h.deps.Unsaved[handoffSecret] {
		return errcode.New(errcode.Invalid, "the secrets file has no guest handoff secret: start the server once to add it")
	}
	return nil
}

// warnRestored logs once that earlier handoffs are void, because booking sites will report errors.
func (h *handoffParts) warnRestored() {
	h.deps.Log.Warn("the database was restored: all earlier handoff tokens are void", "service", Name)
}

// settle makes a new database's first key. On a database server, it also detects a restore by the database's own
// identity.
func (h *handoffParts) settle(ctx context.Context) error {
	if h.deps.Unsaved[handoffSecret] { // left to the first server start
		return nil
	}
	restored, err := h.Keys.Settle(ctx, nil)
	if err == nil && restored {
		h.warnRestored()
	}
	return err
}

// start replaces all keys if the witness file reveals that the SQLite file was restored.
func (h *handoffParts) start(ctx context.Context) error {
	if !h.embedded {
		return nil
	}
	path := filepath.Join(h.deps.Data, witnessFile)
	last, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s cannot be read: %s", path, service.Reason(err))
	}
	if err := engine.MakeFolder(h.deps.Data); err != nil { // secrets and databases may be elsewhere
		return err
	}
	w := handoffs.Witness{Last: strings.TrimSpace(string(last)), Next: ident.New()}
	// Write the file first: if the server dies before it changes the database, the next start merely voids tokens
	// needlessly.
	if err := durable.Replace(path, durable.Bytes([]byte(w.Next+"\n"))); err != nil {
		return fmt.Errorf("%s cannot be written: %s", path, service.Reason(err))
	}
	restored, err := h.Keys.Settle(ctx, &w)
	if err == nil && restored {
		h.warnRestored()
	}
	return err
}

// witnessFile holds the incarnation that the last server gave to the SQLite file.
const witnessFile = "guest-epoch"
