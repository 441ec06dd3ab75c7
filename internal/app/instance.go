package app

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
	"path/filepath"
	"slices"
	"time"

	"holdfast/internal/ident"
	"holdfast/internal/web"
)

// A check has to know whether an address is in use by the server that it checks. So it
// asks the address: on each listener a server answers to whoever proves that it has
// the same master secret, and proves the same. Neither shows the secret, and to
// everybody else there is no such path: an answer without a proof would let anyone
// try to guess a weak secret.
const (
	instancePath  = "/__instance__"
	instanceNonce = "X-Holdfast-Nonce"
	instanceProof = "X-Holdfast-Proof"
)

// instance is the identity of a server on this machine.
type instance struct {
	keys [][]byte // one of each master secret that is accepted
	data string
}

// identity is what an instance says of itself.
type identity struct {
	Data     string `json:"data"`     // its data folder
	Listener string `json:"listener"` // that was asked
	Port     string `json:"port"`     // that it was asked on, which is another one behind a proxy
	Proof    string `json:"proof"`
}

func newInstance(masters []string, data string) (*instance, error) {
	i := &instance{data: data}
	for _, secret := range masters {
		key, err := hkdf.Key(sha256.New, []byte(secret), nil, "holdfast instance", sha256.Size)
		if err != nil {
			return nil, err
		}
		i.keys = append(i.keys, key)
	}
	if abs, err := filepath.Abs(data); err == nil {
		i.data = abs
	}
	if path, err := filepath.EvalSymlinks(i.data); err == nil {
		i.data = path
	}
	return i, nil
}

// prove makes a proof of a key.
func prove(key []byte, parts ...string) string {
	mac := hmac.New(sha256.New, key)
	for _, p := range parts {
		_, _ = io.WriteString(mac, p+"\x00")
	}
	return hex.EncodeToString(mac.Sum(nil))
}

func proves(key []byte, proof string, parts ...string) bool {
	return hmac.Equal([]byte(proof), []byte(prove(key, parts...)))
}

// instanceHandler answers on a listener for the instance; other requests go to the
// handler.
type instanceHandler struct {
	http.Handler
	instance *instance
	listener string
}

func (h *instanceHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == instancePath && r.Header.Get(instanceNonce) != "" {
		nonce := r.Header.Get(instanceNonce)
		for _, key := range h.instance.keys {
			if proves(key, r.Header.Get(instanceProof), "check", nonce) {
				id := identity{Data: h.instance.data, Listener: h.listener}
				if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
					id.Port = portOf(local.String())
				}
				id.Proof = prove(key, "server", nonce, id.Data, id.Listener, id.Port)
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(id)
				return
			}
		}
	}
	h.Handler.ServeHTTP(w, r)
}

// Refuse implements web.Refuser.
func (h *instanceHandler) Refuse(w http.ResponseWriter, r *http.Request) {
	h.Handler.(web.Refuser).Refuse(w, r)
}

// identified makes the handler of a listener answer for this instance.
func (a *App) identified(listener string, h http.Handler) http.Handler {
	if _, refuses := h.(web.Refuser); !refuses {
		return h
	}
	return &instanceHandler{h, a.instance, listener}
}

// instanceTimeout bounds what an address may take to answer.
const instanceTimeout = 3 * time.Second

var errNotHoldfast = errors.New("no Holdfast with these secrets answers")

// ask returns who listens on an address of this machine. The error is errNotHoldfast
// when it is no server that has one of the master secrets, or a proxy in front of one.
func (i *instance) ask(ctx context.Context, address string, tlsFirst bool) (id identity, err error) {
	ctx, cancel := context.WithTimeout(ctx, instanceTimeout)
	defer cancel()
	// Who answers is proved by the secret, so the certificate does not matter: it is for
	// the public name. The proxies of the environment are for the way out.
	client := http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	schemes := []string{"http", "https"} // the server may still run with other settings
	if tlsFirst {
		slices.Reverse(schemes)
	}
	for _, key := range i.keys {
		for _, scheme := range schemes {
			id, err := askOnce(ctx, &client, scheme+"://"+reachable(address)+instancePath, key)
			if err == nil && samePort(id.Port, portOf(address)) {
				return id, nil
			}
		}
	}
	return id, errNotHoldfast
}

func askOnce(ctx context.Context, client *http.Client, url string, key []byte) (id identity, err error) {
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
	if err := json.NewDecoder(io.LimitReader(resp.Body, 16<<10)).Decode(&id); err != nil {
		return id, errNotHoldfast
	}
	if !proves(key, id.Proof, "server", nonce, id.Data, id.Listener, id.Port) {
		return id, errNotHoldfast
	}
	return id, nil
}

// reachable is an address that a listener on "all addresses" is reached at.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
