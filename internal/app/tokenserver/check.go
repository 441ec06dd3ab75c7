package tokenserver

import (
	"context"
	"fmt"

	"holdfast/internal/app/service"
	"holdfast/internal/tokenserver"
)

// inspect remembers whether anybody ever signed in. The server calls it before probe, which then knows how serious an
// unreachable accounts server is.
func (s *Accounts) inspect(ctx context.Context, store tokenserver.Store) error {
	users, err := store.ListUsers(ctx, 0, 1, true)
	s.used.Store(len(users) > 0)
	return err
}

// unreachable returns only a warning before the first sign-in: the server may serve other services in a network
// without internet.
func (s *Accounts) unreachable(what string, err error) service.Finding {
	f := service.Finding{
		State: service.Wrong, What: what, Says: err.Error() + ", so nobody can sign in to Firefox Sync",
		Fix: "let the server reach it, by HTTPS_PROXY if it needs a proxy, or set tokenserver.fxa_oauth_primary_jwk",
	}
	if !s.used.Load() {
		f.State, f.Says = service.Warning, f.Says+"; no sign-ins yet"
		f.Fix += "; without Firefox Sync, set tokenserver.enabled and syncstorage.enabled to false"
	}
	return f
}

// probe asks the accounts server for its keys, which verify each sign-in's token. With a configured key it is not
// asked.
func (s *Accounts) probe(ctx context.Context) []service.Finding {
	const what = "accounts server"
	if s.cfg.FxAOAuthPrimaryJWK.IsSet() {
		return []service.Finding{{State: service.OK, What: what, Says: "not needed: its key is configured"}}
	}
	base := s.cfg.AccountsServer()
	status, err := service.Fetch(ctx, base+"/v1/jwks")
	switch {
	case err != nil:
		return []service.Finding{s.unreachable(what, err)}
	case status != 200:
		return []service.Finding{{State: service.Wrong, What: what, Says: fmt.Sprintf("%s/v1/jwks answers %d", base, status), Fix: "correct tokenserver.fxa_oauth_server_url"}}
	}
	return []service.Finding{{State: service.OK, What: what, Says: base + " answers"}}
}
