// Package nodeclient deletes replaced users' data on other storage nodes. It authenticates as the user, with a
// storage token and Hawk, so nodes need no extra interface.
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
	"holdfast/internal/errcode"
	"holdfast/internal/tokenserver"
)

const (
	// timeout is long, because deleting gigabytes takes time.
	timeout = time.Minute
	// tokenLife exceeds the timeout, because the node's clock may be ahead.
	tokenLife = 10 * time.Minute
	maxAnswer = 64 << 10 // bytes
)

// Purger deletes data on other nodes, with a short-lived token for the user.
type Purger struct {
	minter tokenserver.Minter
	now    clock.Clock
	http   *http.Client
}

// New returns a Purger. The nodes must know the minter's secret.
func New(minter tokenserver.Minter, now clock.Clock) *Purger {
	return &Purger{minter: minter, now: now, http: &http.Client{
		Timeout:   timeout,
		Transport: http.DefaultTransport.(*http.Transport).Clone(),
		// Redirects are not followed, because a signature is valid for one address only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections.
func (p *Purger) Close() { p.http.CloseIdleConnections() }

// Purge returns nil if the node does not know the user. Other failures return errcode.Unavailable.
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
		return errcode.Wrap(errcode.Unavailable, "the node URL is not valid", err)
	}
	if err := hawk.SignHTTP(req, token, key, now, ""); err != nil {
		return errcode.Wrap(errcode.Unavailable, "the node URL is not valid", err)
	}
	res, err := p.http.Do(req)
	if err != nil {
		return errcode.Wrap(errcode.Unavailable, "the node is unavailable", err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	if res.StatusCode/100 != 2 && res.StatusCode != http.StatusNotFound {
		return errcode.Newf(errcode.Unavailable, "the node responded with status %d", res.StatusCode)
	}
	return nil
}
