package app

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/fault"
	"holdfast/internal/sweep"
	"holdfast/internal/syncstorage"
	"holdfast/internal/tokenserver"
	"holdfast/internal/tokenserver/fxa"
	"holdfast/internal/tokenserver/nodeclient"
	tokenpostgres "holdfast/internal/tokenserver/postgres"
	tokensqlite "holdfast/internal/tokenserver/sqlite"
	"holdfast/internal/web"
)

const tokenRoom = "tokenserver"

// cleanupEvery is how often the storage of replaced users is looked for; it is
// kept for days, so minutes do not matter.
const cleanupEvery = 10 * time.Minute

// openTokens opens the room that signs accounts in.
func (a *App) openTokens(ctx context.Context, create bool) error {
	cfg := a.cfg.Tokenserver
	store, err := a.tokenStore(ctx, &cfg, create)
	if err != nil {
		return err
	}
	verifier, err := fxa.New(cfg, a.now)
	if err != nil {
		return err
	}
	events := a.metrics.Counter("holdfast_tokenserver_account_events_total", "Events that the accounts server has reported.", "event")
	for _, k := range []tokenserver.EventKind{tokenserver.OtherEvent, tokenserver.AccountDeleted, tokenserver.PasswordChanged} {
		events.WithLabelValues(k.String())
	}
	nodes := nodeclient.New(minter{a.keyring}, a.now)
	a.closers = append(a.closers, nodes.Close)
	o := tokenserver.Options{
		Config: cfg, Store: store, Verifier: verifier, Minter: minter{a.keyring}, Clock: a.now,
		PublicURL:  a.publicURL(),
		Remote:     nodes,
		CountEvent: func(k tokenserver.EventKind) { events.WithLabelValues(k.String()).Inc() },
	}
	if a.storage != nil {
		o.Local = localPurger{a}
	}
	if a.accounts, err = tokenserver.NewService(o); err != nil {
		return err
	}
	a.checks = append(a.checks, readiness{tokenRoom, store.Ping})
	a.jobs = append(a.jobs, sweep.Job{
		Name: "storage of replaced users", Every: cleanupEvery, Limit: 100, Run: a.accounts.Cleanup,
	})
	return nil
}

func (a *App) tokenStore(ctx context.Context, cfg *tokenserver.Config, create bool) (tokenserver.Store, error) {
	t, err := parseTarget(tokenRoom, cfg.DatabaseURL, a.data)
	if err != nil {
		return nil, err
	}
	if cfg.NodeType == "" {
		cfg.NodeType = string(a.nodeEngine(t))
	}
	if t.engine == engineSQLite {
		set, err := tokensqlite.Migrations()
		if err != nil {
			return nil, err
		}
		db, err := a.openSQLite(ctx, tokenRoom, t.path, create)
		if err != nil {
			return nil, err
		}
		a.addSQLite(tokenRoom, db, t.path, set)
		return tokensqlite.New(db), nil
	}
	set, err := tokenpostgres.Migrations()
	if err != nil {
		return nil, err
	}
	db, err := a.openPostgres(ctx, tokenRoom, t.url, pool{maxConns: cfg.DatabasePoolMaxSize, wait: cfg.DatabasePoolConnectionTimeout})
	if err != nil {
		return nil, err
	}
	a.addPostgres(tokenRoom, db, t.url, set)
	return tokenpostgres.New(db), nil
}

// nodeEngine is what storage nodes keep their records in, if they are like this
// server; one that has no storage itself is like its own accounts.
func (a *App) nodeEngine(accounts target) engine {
	if !a.cfg.Syncstorage.Enabled {
		return accounts.engine
	}
	t, err := parseTarget(syncRoom, a.cfg.Syncstorage.DatabaseURL, a.data)
	if err != nil {
		return accounts.engine // the storage room says what is wrong
	}
	return t.engine
}

// publicURL is the configured one as nodes are written, without a slash at its
// end.
func (a *App) publicURL() string {
	o, err := web.ParseOrigin(a.cfg.Server.PublicURL)
	if err != nil {
		return "" // unset: Open has refused a malformed one
	}
	return o.String()
}

// address is where clients reach the server: the public URL, or else what it
// listens on. "All addresses" is none that one could type, so the machine's
// name stands for it.
func (a *App) address(listen string) string {
	if public := a.publicURL(); public != "" {
		return public
	}
	host, port, _ := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return a.scheme() + "://" + net.JoinHostPort(host, port)
}

// scheme is what the main listener speaks.
func (a *App) scheme() string {
	if a.cfg.Server.TLSCert != "" {
		return "https"
	}
	return "http"
}

// afterMigrations gives a new database its first node.
func (a *App) afterMigrations(ctx context.Context) error {
	if a.accounts == nil {
		return nil
	}
	if err := a.accounts.Store.Ping(ctx); err != nil {
		return err
	}
	node, err := a.accounts.EnsureNode(ctx)
	if err == nil && node != "" {
		a.log.Info("added a storage node", "node", node)
	}
	return err
}

// minter makes the storage tokens of the tokenserver.
type minter struct{ keyring *tokenlib.Keyring }

func (m minter) Mint(c tokenserver.Claims) (token, key string, err error) {
	return m.keyring.Mint(tokenlib.Claims{
		UID: c.UID, FxAUID: c.FxAUID, FxAKID: c.FxAKID, Node: c.Node, Expires: c.Expires,
		HashedFxAUID: c.HashedFxAUID, HashedDeviceID: c.HashedDeviceID, Origin: tokenOrigin,
	})
}

// tokenOrigin tells in a token who made it.
const tokenOrigin = "holdfast"

// localPurger deletes on this server's own storage.
type localPurger struct{ a *App }

func (p localPurger) Purge(ctx context.Context, u tokenserver.DueUser) error {
	return p.a.storage.DeleteAll(ctx, p.a.Owner(&u.User), syncstorage.Precondition{})
}

// TokenRequest is what `holdfast sync token` asks for.
type TokenRequest struct {
	UID            int64
	FxAUID, FxAKID string
	Duration       int64 // seconds
}

// Token is what it prints.
type Token struct {
	ID       string `json:"id"`
	Key      string `json:"key"`
	UID      int64  `json:"uid"`
	Endpoint string `json:"api_endpoint"`
	Duration int64  `json:"duration"`
}

// Token makes a token as the tokenserver does, for any user.
func (a *App) Token(r TokenRequest) (Token, error) {
	if r.UID <= 0 || r.Duration <= 0 {
		return Token{}, fault.New(fault.Invalid, "--uid and --duration must be above 0")
	}
	node := a.address(a.cfg.Server.Listen)
	expires := a.now().Add(time.Duration(r.Duration) * time.Second)
	id, key, err := a.keyring.Mint(tokenlib.Claims{
		UID: r.UID, FxAUID: r.FxAUID, FxAKID: r.FxAKID, Node: node, Expires: expires, Origin: tokenOrigin,
	})
	if err != nil {
		return Token{}, err
	}
	return Token{ID: id, Key: key, UID: r.UID, Endpoint: fmt.Sprintf("%s/1.5/%d", node, r.UID), Duration: r.Duration}, nil
}
