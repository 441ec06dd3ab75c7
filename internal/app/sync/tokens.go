package sync

import (
	"context"
	"fmt"
	"time"

	"holdfast/internal/auth/tokenlib"
	"holdfast/internal/operate"
)

// tokenOperations declares tokens/create, for tests and for operators who look into a user's storage.
func (s *Storage) tokenOperations() []operate.Operation {
	return []operate.Operation{operate.NewChange(operate.About{
		Path: "tokens/create", Doc: "Create a storage token, as the tokenserver does", Title: "Storage tokens", Group: "Create storage tokens",
		Text: "A token reads and writes a single storage user's records. No account is needed or created.",
		More: "The token is signed with the server's master secret: id and key sign requests with Hawk, api_endpoint is\n" +
			"the user's storage URL. No account is needed or created.",
		Example: "--uid 1\n--uid 1 --fxa-uid 0123abcd --fxa-kid 0000000001234-qqo --ttl 5m\n",
	}, s.createToken)}
}

// maxTTL refuses mistyped lifetimes. No setting limits these tokens.
const maxTTL = 10 * 365 * 24 * time.Hour

// tokenInput names any storage user; it need not exist. FxAUID and FxAKID go into the token unchanged, and are part of
// the key on Spanner.
type tokenInput struct {
	UID    int64  `subject:"uid,flag" value:"UID" doc:"storage user's UID" least:"1" example:"1"`
	FxAUID string `flag:"fxa-uid" value:"ID" doc:"account ID at the accounts server"`
	FxAKID string `flag:"fxa-kid" value:"ID" doc:"ID of the account's keys"`
	operate.Lifetime
}

// Check refuses lifetimes above maxTTL.
func (in tokenInput) Check() error {
	if in.UID < 1 {
		return &operate.InputError{Input: "uid", Reason: "must be at least 1"}
	}
	return in.Within(maxTTL, "")
}

// Token is in the format of the tokenserver's answer: ID and Key are Hawk credentials.
type Token struct {
	ID       string `json:"id" title:"ID"`
	Key      string `json:"key" title:"Key" secret:"The token is shown only once."`
	UID      int64  `json:"uid" title:"UID" subject:"uid"`
	Endpoint string `json:"api_endpoint" title:"Endpoint" example:"https://sync.example.org/1.5/1"`
	Duration int64  `json:"duration" title:"Seconds" least:"1" doc:"lifetime in seconds"`
}

func (Token) Notice() string { return "" }

// createToken only signs; it reads no database. The node is the address of this server's main listener.
func (s *Storage) createToken(_ context.Context, in tokenInput) (t Token, err error) {
	if s.opened == nil {
		return t, errDisabled
	}
	d := s.deps
	c := tokenlib.Claims{
		UID: in.UID, FxAUID: in.FxAUID, FxAKID: in.FxAKID, Node: d.Server.Address(d.Server.Listen), Origin: tokenlib.Origin,
		Expires: d.Clock().Add(in.TTL.Truncate(time.Second)),
	}
	t = Token{UID: c.UID, Endpoint: fmt.Sprintf("%s/1.5/%d", c.Node, c.UID), Duration: int64(in.TTL / time.Second)}
	t.ID, t.Key, err = s.keyring.Mint(c)
	return t, err
}
