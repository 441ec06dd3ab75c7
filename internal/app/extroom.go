package app

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"holdfast/internal/auth/bearer"
	ext "holdfast/internal/extstorage"
	exthttp "holdfast/internal/extstorage/httpapi"
	extpostgres "holdfast/internal/extstorage/postgres"
	extsqlite "holdfast/internal/extstorage/sqlite"
	"holdfast/internal/fault"
	"holdfast/internal/ident"
	"holdfast/internal/sweep"
)

const extRoom = "extstorage"

// extStore is what both backends are.
type extStore interface {
	ext.Store
	ext.Registry
	ext.Installs
}

// openExt opens the room of extensions' records. Where a release that had none
// has served so far, the room is off until a server of this one starts: commands
// such as backup may come before.
func (a *App) openExt(ctx context.Context, create bool) error {
	cfg := a.cfg.Extstorage
	t, err := parseTarget(extRoom, cfg.DatabaseURL, a.data)
	if err != nil {
		return err
	}
	if t.engine == engineSQLite && !create {
		if _, err := os.Stat(t.path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	store, err := a.extStore(ctx, cfg, t, create)
	if err != nil {
		return err
	}
	if a.tokens, err = extKeyring(cfg); err != nil {
		return err
	}
	secrets := cfg.TokenSecrets()
	cursorKeys := make([][]byte, len(secrets))
	for i, secret := range secrets {
		if cursorKeys[i], err = hkdf.Key(sha256.New, []byte(secret), nil, "extstorage cursors", sha256.Size); err != nil {
			return err
		}
	}
	judges := newJudges()
	a.records, err = ext.NewService(ext.Options{
		Store: store, Registry: store, Installs: store, Validators: judges, Documents: judges,
		Config: cfg, CursorKeys: cursorKeys, Clock: a.now,
	})
	if err != nil {
		return err
	}
	a.recordMetrics = a.observeRecords()
	a.checks = append(a.checks, readiness{extRoom, store.Ping})
	a.jobs = append(a.jobs, sweep.Job{
		Name: "expired records of extensions", Every: cfg.SweepEvery, Limit: cfg.SweepLimit,
		Run: func(ctx context.Context, now time.Time, limit int) (int, error) {
			n, err := store.Sweep(ctx, ext.At(now), limit)
			a.recordMetrics.swept.Add(int64(n))
			return n, err
		},
	})
	return nil
}

func (a *App) extStore(ctx context.Context, cfg ext.Config, t target, create bool) (extStore, error) {
	if t.engine == engineSQLite {
		set, err := extsqlite.Migrations()
		if err != nil {
			return nil, err
		}
		db, err := a.openSQLite(ctx, extRoom, t.path, create)
		if err != nil {
			return nil, err
		}
		a.addSQLite(extRoom, db, t.path, set)
		store := extsqlite.New(db)
		a.audit = store.Outbox(a.now)
		return store, nil
	}
	set, err := extpostgres.Migrations()
	if err != nil {
		return nil, err
	}
	db, err := a.openPostgres(ctx, extRoom, t.url,
		pool{maxConns: cfg.PoolMaxSize, wait: cfg.PoolConnectionTimeout, lifespan: cfg.PoolLifespan, idle: cfg.PoolMaxIdle, long: cfg.StatementTimeout})
	if err != nil {
		return nil, err
	}
	a.addPostgres(extRoom, db, t.url, set)
	opened := a.databases[len(a.databases)-1]
	opened.inspect = func(ctx context.Context) ([]Finding, error) { return inspectRecords(ctx, db, cfg.MetadataIndex) }
	if cfg.MetadataIndex {
		opened.extra = func(ctx context.Context) (string, error) {
			made, err := extpostgres.EnsureMetadataIndex(ctx, db)
			if !made {
				return "", err
			}
			return "the index of the metadata", err
		}
	}
	a.audit = extpostgres.Outbox(db)
	return extpostgres.New(db), nil
}

// extKeyring verifies tokens by the server's own keys, the first of which also
// signs, and by those of the configuration.
func extKeyring(cfg ext.Config) (*bearer.Keyring, error) {
	var keys []bearer.Key
	for _, secret := range cfg.TokenSecrets() {
		keys = append(keys, bearer.Key{ID: ext.OwnTokenKey(secret), Alg: bearer.HS256, Text: secret})
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.TokenKeys)) {
		k := cfg.TokenKeys[name]
		keys = append(keys, bearer.Key{ID: k.KeyID(name), Alg: k.Alg, Text: k.Key})
	}
	return bearer.NewKeyring(bearer.Options{Keys: keys, Issuer: cfg.TokenIssuer, Audience: cfg.TokenAudience, Leeway: cfg.TokenLeeway})
}

// ExtTokenRequest is what `holdfast ext token` asks for.
type ExtTokenRequest struct {
	Owner      ext.Owner                    // of a service, only the tenant
	Namespaces map[ext.Namespace]ext.Access // of an install
	Service    string                       // who speaks for installs of the tenant; "" for an install itself
	TTL        time.Duration
}

// ExtToken is what it prints.
type ExtToken struct {
	Token   string    `json:"token"`
	ID      string    `json:"id"` // by which the audit tells tokens apart
	Expires time.Time `json:"expires"`
	URL     string    `json:"url,omitempty"` // where it is good; "" when this server has no internal listener
}

// ExtToken makes a token of an install, or of a service.
func (a *App) ExtToken(r ExtTokenRequest) (t ExtToken, err error) {
	if a.unsaved {
		return t, fault.Newf(fault.Invalid, "%s has no key for tokens yet: start the server of this release once", SecretsFile)
	}
	t.ID = ident.New()
	claims := map[string]any{"tenant_id": r.Owner.Tenant, "jti": t.ID}
	if r.Service != "" {
		if !exthttp.ValidService(r.Service) {
			return t, fault.New(fault.Invalid, "the name of a service has 1 to 64 characters of a-z, 0-9 and -")
		}
		claims["service"] = r.Service
		if listen := a.cfg.Server.InternalListen; listen != "" {
			t.URL = a.scheme() + "://" + listen + "/internal/ext-storage/install/"
		}
	} else {
		claims["install_id"], claims["ns"] = r.Owner.Install, r.Namespaces
		t.URL = a.address(a.cfg.Server.Listen) + "/ext/v1/installs/" + string(r.Owner.Install)
	}
	now := a.now()
	t.Expires = now.Add(r.TTL).Truncate(time.Second).UTC()
	t.Token, err = a.tokens.Sign(claims, now, r.TTL)
	return t, err
}
