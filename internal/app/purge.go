package app

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"holdfast/internal/auth/hawk"
	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/fault"
	"holdfast/internal/syncstorage"
	"holdfast/internal/tokenserver"
)

// localPurger deletes on this server's own storage.
type localPurger struct{ a *App }

func (p localPurger) Purge(ctx context.Context, u tokenserver.DueUser) error {
	return p.a.storage.DeleteAll(ctx, p.a.Owner(&u.User), syncstorage.Precondition{})
}

// remotePurger deletes on another node, as that user would: with a token that
// it signs itself.
type remotePurger struct {
	a      *App
	client *http.Client
}

// purgeTimeout bounds the deletion of one user, and purgeToken is how long the
// token for it is good.
const (
	purgeTimeout = time.Minute
	purgeToken   = 5 * time.Minute
)

func (p remotePurger) Purge(ctx context.Context, u tokenserver.DueUser) error {
	owner, now := p.a.Owner(&u.User), p.a.now()
	id, key, err := p.a.keyring.Mint(tokenlib.Claims{
		UID: owner.UID, FxAUID: owner.FxAUID, FxAKID: owner.FxAKID, Node: u.Node,
		Expires: now.Add(purgeToken), Origin: tokenOrigin,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, purgeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, u.Node+"/1.5/"+strconv.FormatInt(u.UID, 10), nil)
	if err != nil {
		return fault.Wrap(fault.Invalid, "the node's URL is malformed", err)
	}
	if err := hawk.SignHTTP(req, id, key, now, ""); err != nil {
		return err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return fault.Wrap(fault.Unavailable, "the node does not answer", err)
	}
	defer resp.Body.Close()
	// A node that does not know the user has nothing to delete.
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNotFound {
		return fault.New(fault.Unavailable, fmt.Sprintf("the node answers %d", resp.StatusCode))
	}
	return nil
}
