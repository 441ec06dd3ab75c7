package tokenlib

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Values of Claims.Origin.
const (
	Origin        = "holdfast"
	CleanupOrigin = "holdfast-cleanup" // in tokens that delete replaced users' storage
)

// Claims are a Firefox Sync token's claims. UID, Expires and Salt are required.
type Claims struct {
	UID            int64 // storage user, above 0
	FxAUID         string
	FxAKID         string // key ID: "keys_changed_at-client_state"
	Node           string
	Expires        time.Time
	HashedFxAUID   string
	HashedDeviceID string
	Salt           string // distinguishes tokens from the same second
	Origin         string // issuing tokenserver; "python" if absent
}

// wire has the field order of the Rust tokenserver.
type wire struct {
	Node           string  `json:"node"`
	FxAKID         string  `json:"fxa_kid"`
	FxAUID         string  `json:"fxa_uid"`
	HashedDeviceID string  `json:"hashed_device_id"`
	HashedFxAUID   string  `json:"hashed_fxa_uid"`
	Expires        float64 `json:"expires"` // Python writes fractions; whole numbers are written as integers
	UID            int64   `json:"uid"`
	Origin         string  `json:"tokenserver_origin,omitempty"`
	Salt           string  `json:"salt"`
}

// maxExpires is small enough that a float64 is exact and far from overflow.
const maxExpires = 1 << 53

func (c Claims) encode() ([]byte, error) {
	w := wire{
		Node: c.Node, FxAKID: c.FxAKID, FxAUID: c.FxAUID,
		HashedDeviceID: c.HashedDeviceID, HashedFxAUID: c.HashedFxAUID,
		Expires: float64(c.Expires.Unix()), UID: c.UID, Origin: c.Origin, Salt: c.Salt,
	}
	if err := w.check(); err != nil {
		return nil, err
	}
	return json.Marshal(w)
}

func decodeClaims(payload []byte) (Claims, error) {
	w := wire{Origin: "python"}
	if err := json.Unmarshal(payload, &w); err != nil {
		return Claims{}, fmt.Errorf("%w: the claims must be JSON of the expected types", ErrMalformed)
	}
	if err := w.check(); err != nil {
		return Claims{}, err
	}
	return Claims{
		UID: w.UID, FxAUID: w.FxAUID, FxAKID: w.FxAKID, Node: w.Node,
		Expires:      time.Unix(int64(math.Round(w.Expires)), 0),
		HashedFxAUID: w.HashedFxAUID, HashedDeviceID: w.HashedDeviceID,
		Salt: w.Salt, Origin: w.Origin,
	}, nil
}

// check returns an error unless the required claims are present.
func (w *wire) check() error {
	switch {
	case w.UID <= 0:
		return fmt.Errorf("%w: uid is required", ErrMalformed)
	case w.Expires <= 0 || w.Expires > maxExpires:
		return fmt.Errorf("%w: expires is required", ErrMalformed)
	case w.Salt == "":
		return fmt.Errorf("%w: salt is required", ErrMalformed)
	}
	return nil
}
