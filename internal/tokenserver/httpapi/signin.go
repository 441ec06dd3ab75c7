package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"holdfast/internal/tokenserver"
	"holdfast/internal/web"
)

// grant is the answer to a sign-in, with the reference server's names.
type grant struct {
	ID           string `json:"id"`
	Key          string `json:"key"`
	UID          int64  `json:"uid"`
	Endpoint     string `json:"api_endpoint"`
	Duration     int64  `json:"duration"` // seconds
	HashedFxAUID string `json:"hashed_fxa_uid"`
	HashAlg      string `json:"hashalg"`
	NodeType     string `json:"node_type"`
}

// signIn verifies credentials before application and keys. Clients rely on this order to decide whether to sign in
// again or give up.
func (h *Handler) signIn(w http.ResponseWriter, r *http.Request, rt route, at web.Address) error {
	// A sign-in is a GET, but it may allocate a user or replace keys.
	if err := (&web.Conditions{}).Check(r.Header); err != nil {
		return err
	}
	token, err := bearer(r)
	if err != nil {
		return err
	}
	var identity tokenserver.Identity
	err = h.verify(r, func() (err error) {
		identity, err = h.Service.AccessToken(r.Context(), token)
		if err == nil {
			web.Identify(r, "accounts "+identity.FxAUID)
		}
		return err
	})
	if err != nil {
		return err
	}
	keys, err := keyID(r.Header)
	if err != nil {
		return err
	}
	if err := rt.check(); err != nil {
		return err
	}
	g, err := h.Service.SignIn(r.Context(), tokenserver.Request{
		Identity: identity,
		Token:    token,
		Keys:     keys,
		Duration: r.URL.Query().Get("duration"),
		Origin:   at.Origin.String(),
	})
	if err != nil {
		return err
	}
	body, err := json.Marshal(grant{
		ID: g.Token, Key: g.Key, UID: g.UID, Endpoint: g.Endpoint, Duration: int64(g.Duration.Seconds()),
		HashedFxAUID: g.HashedFxAUID, HashAlg: "sha256", NodeType: g.NodeType,
	})
	if err != nil {
		return fmt.Errorf("encode a grant: %w", err)
	}
	send(w, http.StatusOK, body)
	return nil
}

// keyID parses X-KeyID. The older X-Client-State is optional and must match it.
func keyID(head http.Header) (tokenserver.KeyID, error) {
	values := head.Values("X-KeyID")
	if len(values) == 0 {
		return tokenserver.KeyID{}, &tokenserver.Refusal{Reason: tokenserver.BadKeyID, Detail: "Missing X-KeyID header"}
	}
	keys, err := tokenserver.ParseKeyID(values[0])
	if err != nil {
		return tokenserver.KeyID{}, err
	}
	if states := head.Values("X-Client-State"); len(states) > 0 {
		switch {
		case !tokenserver.ValidClientState(states[0]):
			return tokenserver.KeyID{}, errClientState
		case states[0] != keys.ClientState:
			return tokenserver.KeyID{}, &tokenserver.Refusal{Reason: tokenserver.BadClientState}
		}
	}
	return keys, nil
}

// check accepts only sync/1.5.
func (rt route) check() error {
	switch {
	case rt.application != "sync":
		return unsupported("application", "Unsupported application")
	case rt.version != "1.5":
		return unsupported(rt.version, "Unsupported application version")
	}
	return nil
}
