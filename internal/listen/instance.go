package listen

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/ident"
	"holdfast/internal/web"
)

// The check asks an address in use whether this server listens there. Both sides prove that they have the same
// master secret without sending it. Without a proof, a client learns only that this is a Holdfast server, as from
// the status page: unconditional proofs would allow offline guesses at a weak secret.
const (
	instancePath  = "/__instance__"
	instanceNonce = "X-Holdfast-Nonce"
	instanceProof = "X-Holdfast-Proof" // "refused" in a response
)

// Instance proves that this process belongs to a data folder's server.
type Instance struct {
	keys [][]byte
	Data string // data folder

	// Settings returns the settings in use by path, also secrets; nil: they are not compared. Ask compares those that both
	// sides have, by their hashes.
	Settings func() map[string]string
}

// Identity is a server's answer. Proof covers the other members and the request's nonce, except Hashes: releases before
// them do not know the member. Each hash contains the nonce and the key, so it is a proof itself.
type Identity struct {
	Data     string            `json:"data"`     // the server's data folder
	Listener string            `json:"listener"` // name of the listener
	Port     string            `json:"port"`     // actual port, which differs behind a proxy
	Proof    string            `json:"proof"`
	Hashes   map[string]string `json:"settings,omitempty"` // of the settings, by path

	Differ []string `json:"-"` // paths of the settings with another value than here, in order
}

// NewInstance returns a server's identity. It proves nothing without a secret.
func NewInstance(masters []string, data string) (*Instance, error) {
	i := &Instance{Data: sqlitedb.CanonicalPath(data)}
	for _, secret := range masters {
		key, err := hkdf.Key(sha256.New, []byte(secret), nil, "holdfast instance", sha256.Size)
		if err != nil {
			return nil, err
		}
		i.keys = append(i.keys, key)
	}
	return i, nil
}

// prove returns an HMAC over the parts, which contain no NUL.
func prove(key []byte, parts ...string) string {
	mac := hmac.New(sha256.New, key)
	for _, p := range parts {
		_, _ = io.WriteString(mac, p+"\x00")
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// proves compares in constant time.
func proves(key []byte, proof string, parts ...string) bool {
	return hmac.Equal([]byte(proof), []byte(prove(key, parts...)))
}

// hashes returns hashes of the settings' values for a nonce.
func (i *Instance) hashes(key []byte, nonce string) map[string]string {
	if i.Settings == nil {
		return nil
	}
	all := map[string]string{}
	for path, value := range i.Settings() {
		all[path] = prove(key, "setting", nonce, path, value)[:hashLength]
	}
	return all
}

// hashLength is the length of a setting's hash in hexadecimal digits. It only has to tell values apart.
const hashLength = 16

// differ returns the paths that are in both maps with different hashes.
func differ(here, there map[string]string) (all []string) {
	for path, hash := range there {
		if own, ok := here[path]; ok && own != hash {
			all = append(all, path)
		}
	}
	slices.Sort(all)
	return all
}

// instanceHandler answers requests for the identity and passes all others on.
type instanceHandler struct {
	http.Handler
	instance *Instance
	listener string
}

func (h *instanceHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == instancePath && r.Header.Get(instanceNonce) != "" {
		nonce := r.Header.Get(instanceNonce)
		for _, key := range h.instance.keys {
			if proves(key, r.Header.Get(instanceProof), "check", nonce) {
				id := Identity{Data: h.instance.Data, Listener: h.listener}
				if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
					id.Port = PortOf(local.String())
				}
				id.Proof = prove(key, "server", nonce, id.Data, id.Listener, id.Port)
				id.Hashes = h.instance.hashes(key, nonce)
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(id)
				return
			}
		}
		w.Header().Set(instanceProof, "refused")
	}
	h.Handler.ServeHTTP(w, r)
}

// ServeMalformed implements web.MalformedHandler, which Handler requires of the wrapped handler.
func (h *instanceHandler) ServeMalformed(w http.ResponseWriter, r *http.Request, status int, err error) {
	h.Handler.(web.MalformedHandler).ServeMalformed(w, r, status, err)
}

// Handler returns h with the answer to Ask for the named listener.
func (i *Instance) Handler(listener string, h http.Handler) http.Handler {
	if _, ok := h.(web.MalformedHandler); !ok {
		return h
	}
	return &instanceHandler{h, i, listener}
}

// maxAnswer is the maximum size of an answer in bytes: thousands of settings with their hashes.
const maxAnswer = 1 << 20

const instanceTimeout = 3 * time.Second // for all attempts with all secrets

// These are the errors of Ask.
var (
	ErrNotHoldfast  = errors.New("no Holdfast server answers")
	ErrOtherSecrets = errors.New("a Holdfast server with other secrets answers")
)

// Ask returns the identity of the server on a local address: ErrOtherSecrets for a Holdfast server with other master
// secrets, ErrNotHoldfast for other programs and proxies in front of this server.
func (i *Instance) Ask(ctx context.Context, address string, tlsFirst bool) (id Identity, err error) {
	ctx, cancel := context.WithTimeout(ctx, instanceTimeout)
	defer cancel()
	// The certificate, for the public name, may be invalid here: the secret proves the identity. The environment's
	// proxies are not for local addresses.
	client := http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	schemes := []string{"http", "https"} // it may have been started with other settings
	if tlsFirst {
		slices.Reverse(schemes)
	}
	keys := i.keys
	if len(keys) == 0 {
		keys = [][]byte{nil} // even without a secret, it can recognize a Holdfast server
	}
	result := ErrNotHoldfast
	for _, key := range keys {
		for _, scheme := range schemes {
			id, err := i.askOnce(ctx, &client, scheme+"://"+WithHostName(address, "localhost")+instancePath, key)
			if err == nil && SamePort(id.Port, PortOf(address)) {
				return id, nil
			}
			if errors.Is(err, ErrOtherSecrets) {
				result = ErrOtherSecrets
			}
		}
	}
	return id, result
}

// askOnce asks with one secret. An empty key can only find out whether a Holdfast server answers.
func (i *Instance) askOnce(ctx context.Context, client *http.Client, url string, key []byte) (id Identity, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return id, err
	}
	nonce := ident.Hex(16)
	req.Header.Set(instanceNonce, nonce)
	req.Header.Set(instanceProof, prove(key, "check", nonce))
	resp, err := client.Do(req)
	if err != nil {
		return id, err
	}
	defer resp.Body.Close()
	if resp.Header.Get(instanceProof) != "" {
		return id, ErrOtherSecrets
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&id); err != nil {
		return id, ErrNotHoldfast
	}
	if len(key) == 0 || !proves(key, id.Proof, "server", nonce, id.Data, id.Listener, id.Port) {
		return id, ErrNotHoldfast
	}
	id.Differ = differ(i.hashes(key, nonce), id.Hashes)
	return id, nil
}
