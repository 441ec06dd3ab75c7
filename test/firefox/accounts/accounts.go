// Package accounts is a stub of Firefox's accounts server: one account, in memory, over plain HTTP on loopback.
//
// It has no sign-in page or password protocol: a test passes SignIn's Credentials to the browser, like the page
// would. The browser then requests OAuth tokens, its device list and its profile here, and the tokenserver under test
// requests the key that signs the tokens.
//
// Hawk requests are identified by ID; their MACs are not checked, because this server's client is not under test.
package accounts

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// SyncScope is Firefox Sync's OAuth scope, and names the key that encrypts synced data.
const SyncScope = "https://identity.mozilla.com/apps/oldsync"

const tokenLifetime = 6 * time.Hour

// Server is the accounts server with its only account. It is an http.Handler.
type Server struct {
	mux    *http.ServeMux
	key    *rsa.PrivateKey
	signer jose.Signer

	mu       sync.Mutex
	account  account
	sessions map[string]*session
	tokens   map[string]grant
}

// account is the state that a password reset replaces.
type account struct {
	uid, email string
	// generation grows with every password change, keysChanged with every new key; Unix milliseconds.
	generation, keysChanged int64
	key                     ScopedKey
}

type session struct {
	id     string
	device *device // nil until registered
}

type grant struct {
	clientID, scope string
	generation      int64
}

// ScopedKey is the account's key for a scope, as stored by the browser.
type ScopedKey struct {
	Scope string `json:"scope"`
	Kid   string `json:"kid"` // creation in ms, hyphen, fingerprint
	K     string `json:"k"`   // 64 bytes: half for encryption, half for authentication
	Kty   string `json:"kty"` // always "oct"
}

// Credentials are the browser's stored account data.
type Credentials struct {
	Email        string               `json:"email"`
	UID          string               `json:"uid"`
	SessionToken string               `json:"sessionToken"`
	Verified     bool                 `json:"verified"`
	ScopedKeys   map[string]ScopedKey `json:"scopedKeys"`
}

// New creates the server, its signing key and the account.
func New() (*Server, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("accounts: %w", err)
	}
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "stub"}},
		(&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		return nil, fmt.Errorf("accounts: %w", err)
	}
	s := &Server{
		key:      key,
		signer:   signer,
		account:  account{uid: randomHex(16), email: "somebody@example.com"},
		sessions: map[string]*session{},
		tokens:   map[string]grant{},
	}
	s.ResetPassword()
	s.routes()
	return s, nil
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// SignIn opens a session like a sign-in page with the current password.
func (s *Server) SignIn() (Credentials, error) {
	token := make([]byte, 32)
	rand.Read(token)
	// The browser never sends the session token: it derives the ID (first third) and key of its Hawk requests from
	// it.
	id, err := hkdf.Key(sha256.New, token, nil, "identity.mozilla.com/picl/v1/sessionToken", 32)
	if err != nil {
		return Credentials{}, fmt.Errorf("accounts: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[hex.EncodeToString(id)] = &session{id: hex.EncodeToString(id)}
	return Credentials{
		Email:        s.account.email,
		UID:          s.account.uid,
		SessionToken: hex.EncodeToString(token),
		Verified:     true,
		ScopedKeys:   map[string]ScopedKey{SyncScope: s.account.key},
	}, nil
}

// ResetPassword sets a new password without the old password: every session ends, and synced data gets a new key.
// (Otherwise the key is kept and only the generation grows.)
func (s *Server) ResetPassword() {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Strictly growing, even for two resets within a millisecond.
	now := max(time.Now().UnixMilli(), s.account.generation+1)
	secret := make([]byte, 64)
	rand.Read(secret)
	fingerprint := sha256.Sum256(secret)
	s.account.generation, s.account.keysChanged = now, now
	s.account.key = ScopedKey{
		Scope: SyncScope,
		Kid:   fmt.Sprintf("%d-%s", now, base64.RawURLEncoding.EncodeToString(fingerprint[:16])),
		K:     base64.RawURLEncoding.EncodeToString(secret),
		Kty:   "oct",
	}
	clear(s.sessions)
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}
