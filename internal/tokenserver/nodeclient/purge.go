// Package nodeclient speaks to the storage nodes of a tokenserver that are not
// this server: it deletes there what is left of users that were replaced.
//
// It comes as the user would, with a token that opens the user's storage and a
// request signed by Hawk, so a node needs no interface of its own for it.
package nodeclient

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"holdfast/internal/auth/hawk"
	"holdfast/internal/clock"
	"holdfast/internal/fault"
	"holdfast/internal/tokenserver"
)

const (
	// timeout is how long a node may take to delete a user's storage, which
	// can be gigabytes.
	timeout = time.Minute
	// tokenLife is how long the token is good, beyond the request itself: the
	// node's clock may be ahead of ours.
	tokenLife = 10 * time.Minute
	// maxAnswer is how much of an answer is read, in bytes, to use the
	// connection again.
	maxAnswer = 64 << 10
)

// Purger is a tokenserver.Purger over HTTP.
type Purger struct {
	minter tokenserver.Minter
	now    clock.Clock
	http   *http.Client
}

// New makes a purger. The nodes know the secret that the minter signs with.
func New(minter tokenserver.Minter, now clock.Clock) *Purger {
	return &Purger{minter: minter, now: now, http: &http.Client{
		Timeout:   timeout,
		Transport: http.DefaultTransport.(*http.Transport).Clone(),
		// A signature is good for one address.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close gives back idle connections.
func (p *Purger) Close() { p.http.CloseIdleConnections() }

// Purge implements tokenserver.Purger. That the node knows nothing of the user
// is fine; anything else than that and success is fault.Unavailable.
func (p *Purger) Purge(ctx context.Context, u tokenserver.DueUser) error {
	now := p.now()
	token, key, err := p.minter.Mint(tokenserver.Claims{
		UID: u.UID, FxAUID: u.Account().FxAUID, FxAKID: u.KeyID().String(), Node: u.Node, Expires: now.Add(tokenLife), Cleanup: true,
	})
	if err != nil {
		return fmt.Errorf("mint a token: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, u.Node+"/1.5/"+strconv.FormatInt(u.UID, 10), nil)
	if err != nil {
		return fault.Wrap(fault.Unavailable, "the node URL is not valid", err)
	}
	if err := hawk.SignHTTP(req, token, key, now, ""); err != nil {
		return fault.Wrap(fault.Unavailable, "the node URL is not valid", err)
	}
	res, err := p.http.Do(req)
	if err != nil {
		return fault.Wrap(fault.Unavailable, "the node is unavailable", err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer)) // the status says it all
	if res.StatusCode/100 != 2 && res.StatusCode != http.StatusNotFound {
		return fault.Newf(fault.Unavailable, "the node responded with status %d", res.StatusCode)
	}
	return nil
}
