// Package accounts is a stub of Firefox's accounts server. It has one account, in memory, and uses plain HTTP on
// loopback.
//
// It has no sign-in page or password protocol: a test passes the Credentials from SignIn to the browser, as the page
// would. The browser then requests OAuth tokens, its device list and its profile from the stub, and the tokenserver
// under test requests the key that signs the tokens.
//
// Hawk requests are identified by ID. Their MACs are not checked, because the client of this server is not under
// test.
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

// SyncScope is the OAuth scope of Firefox Sync. It also names the key that encrypts synced data.
const SyncScope = "https://identity.mozilla.com/apps/oldsync"

const tokenLifetime = 6 * time.Hour

// Server is the accounts server with its only account.
type Server struct {
	mux    *http.ServeMux
	key    *rsa.PrivateKey
	signer jose.Signer

	mu       sync.Mutex
	account  account
	sessions map[string]*session
	tokens   map[string]grant
}

type account struct {
	uid, email string
	// generation grows with every password change, and keysChanged with every new key. Both are in Unix milliseconds.
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

// ScopedKey is the account's key for a scope, as the browser stores it.
type ScopedKey struct {
	Scope string `json:"scope"`
	Kid   string `json:"kid"` // creation time in ms, hyphen, fingerprint
	K     string `json:"k"`   // 64 bytes: one half for encryption, the other half for authentication
	Kty   string `json:"kty"` // always "oct"
}

// Credentials are the account data stored in the browser.
type Credentials struct {
	Email        string               `json:"email"`
	UID          string               `json:"uid"`
	SessionToken string               `json:"sessionToken"`
	Verified     bool                 `json:"verified"`
	ScopedKeys   map[string]ScopedKey `json:"scopedKeys"`
}

// New creates the server with its signing key and account.
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

// SignIn opens a session, as a sign-in page does after the current password was entered.
func (s *Server) SignIn() (Credentials, error) {
	token := make([]byte, 32)
	rand.Read(token)
	// The browser never sends the session token. It derives from the token the ID (the first third) and the key of its Hawk
	// requests.
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

// ResetPassword sets a new password without requiring the old one: every session ends, and synced data gets a new
// key. (A change with the old password would keep the key and only increase the generation.)
func (s *Server) ResetPassword() {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The generation must grow, even for two resets within a millisecond.
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
