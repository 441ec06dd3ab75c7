package accounts

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// claims contains times in Unix seconds.
type claims struct {
	Subject    string `json:"sub"`
	Issuer     string `json:"iss"`
	ClientID   string `json:"client_id"`
	Scope      string `json:"scope"` // scopes separated by spaces
	Generation int64  `json:"fxa-generation"`
	IssuedAt   int64  `json:"iat"`
	Expires    int64  `json:"exp"`
	ID         string `json:"jti"`
}

func (s *Server) issueToken(w http.ResponseWriter, r *http.Request, _ *session) {
	var in struct {
		ClientID string `json:"client_id"`
		Scope    string `json:"scope"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		refuse(w, badRequest)
		return
	}
	now := time.Now()
	g := grant{clientID: in.ClientID, scope: in.Scope, generation: s.account.generation}
	token, err := jwt.Signed(s.signer).Claims(claims{
		Subject:    s.account.uid,
		Issuer:     "http://" + r.Host,
		ClientID:   g.clientID,
		Scope:      g.scope,
		Generation: g.generation,
		IssuedAt:   now.Unix(),
		Expires:    now.Add(tokenLifetime).Unix(),
		ID:         randomHex(16),
	}).Serialize()
	if err != nil {
		refuse(w, badRequest)
		return
	}
	s.tokens[token] = g
	answer(w, map[string]any{
		"access_token": token,
		"token_type":   "bearer",
		"scope":        g.scope,
		"expires_in":   int(tokenLifetime.Seconds()),
	})
}

func (s *Server) destroyToken(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		refuse(w, badRequest)
		return
	}
	delete(s.tokens, in.Token)
	answer(w, struct{}{})
}

// verifyToken serves tokenservers that do not check signatures.
func (s *Server) verifyToken(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		refuse(w, badRequest)
		return
	}
	g, ok := s.tokens[in.Token]
	if !ok {
		refuse(w, invalidToken)
		return
	}
	answer(w, map[string]any{
		"user":       s.account.uid,
		"client_id":  g.clientID,
		"scope":      strings.Fields(g.scope),
		"generation": g.generation,
	})
}

// publicKeys serves tokenservers that check signatures.
func (s *Server) publicKeys(w http.ResponseWriter, _ *http.Request) {
	answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: s.key.Public(), KeyID: "stub", Algorithm: string(jose.RS256), Use: "sig"},
	}})
}
