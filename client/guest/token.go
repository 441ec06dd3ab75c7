package guest

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

// TokenStore stores the session token of an app, e.g. in a key chain. Implementations must be safe for concurrent
// use.
type TokenStore interface {
	// Load returns the last saved token, or "".
	Load(ctx context.Context) (string, error)

	// Save replaces the token. The client calls it whenever the server sends another token.
	Save(ctx context.Context, token string) error
}

// MemoryTokens is a TokenStore in memory. The zero value is empty.
type MemoryTokens struct {
	mu    sync.Mutex
	token string
}

// Load implements TokenStore.
func (m *MemoryTokens) Load(context.Context) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.token, nil
}

// Save implements TokenStore.
func (m *MemoryTokens) Save(_ context.Context, token string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.token = token
	return nil
}

const bearer = "Bearer "

// setToken sends the stored token, or asks the server for a new token.
func setToken(ctx context.Context, store TokenStore, req *http.Request) error {
	token, err := store.Load(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("load session token: %w", err)
	case token == "":
		req.Header.Set("X-Session-Mode", "bearer")
	default:
		req.Header.Set("Authorization", bearer+token)
	}
	return nil
}

// saveToken stores the response's token. It skips the token that the request sent, because a concurrent sign-in may
// have replaced it since.
func saveToken(ctx context.Context, store TokenStore, resp *http.Response) error {
	token := resp.Header.Get("X-Session-Token")
	if token == "" || resp.Request.Header.Get("Authorization") == bearer+token {
		return nil
	}
	if err := store.Save(ctx, token); err != nil {
		return fmt.Errorf("save session token: %w", err)
	}
	return nil
}

// begun runs requests one at a time until the first succeeds, because two concurrent requests would start two
// sessions.
type begun struct {
	turn chan struct{} // contains a value while no request runs alone
	done chan struct{} // closed once there is a session
}

// newBegun returns a begun without a session.
func newBegun() *begun {
	b := &begun{make(chan struct{}, 1), make(chan struct{})}
	b.turn <- struct{}{}
	return b
}

// inTurn runs fn. While there may be no session, no other call runs at the same time.
func (b *begun) inTurn(ctx context.Context, fn func() error) error {
	select {
	case <-b.done:
		return fn()
	default:
	}
	select {
	case <-b.done:
		return fn()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-b.turn:
	}
	err := fn()
	select {
	case <-b.done: // another request was first
	default:
		if err == nil {
			close(b.done)
		}
	}
	b.turn <- struct{}{}
	return err
}
