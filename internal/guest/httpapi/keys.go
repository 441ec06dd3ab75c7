package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/web"
)

// KeysAdmin serves the keys of handoffs on the admin listener, which has already checked the
// admin token. Secrets are not shown.
type KeysAdmin struct{ Keys *guest.HandoffKeys }

const keysPath = "/guest/keys"

// OwnsKeys reports whether a raw path on the admin listener belongs to KeysAdmin.
func OwnsKeys(path string) bool { return path == keysPath || strings.HasPrefix(path, keysPath+"/") }

// LabelKeys is Label for the admin listener.
func LabelKeys(string) string { return keysPath }

// KeyView is a key as operators see it.
type KeyView struct {
	ID        string         `json:"id"`
	State     guest.KeyState `json:"state"`
	NotBefore time.Time      `json:"notBefore"`
	NotAfter  *time.Time     `json:"notAfter,omitempty"`
	RetiredAt *time.Time     `json:"retiredAt,omitempty"`
}

// ViewKey returns the view of a key.
func ViewKey(k guest.HandoffKey) KeyView {
	return KeyView{k.ID, k.State, k.NotBefore, timeOrNil(k.NotAfter), timeOrNil(k.Retired)}
}

// Serve is the web.Handler of the admin listener: GET lists the keys, POST adds one, and
// POST to rotate, revoke-all, ID/activate, ID/retire and ID/revoke change them.
func (h *KeysAdmin) Serve(w http.ResponseWriter, r *http.Request, at web.Address) error {
	w.Header().Set("Cache-Control", "private, no-store")
	if at.Path == keysPath && r.Method == http.MethodGet {
		return h.list(w, r)
	}
	status, change := http.StatusOK, h.change(strings.TrimPrefix(at.Path, keysPath))
	switch {
	case change == nil:
		return errPath
	case r.Method != http.MethodPost:
		allowed := "POST"
		if at.Path == keysPath {
			allowed = "GET, POST"
		}
		w.Header().Set("Allow", allowed)
		return web.Refuse(http.StatusMethodNotAllowed, "method-not-allowed", "this path supports "+allowed)
	case at.Path == keysPath:
		status = http.StatusCreated
	}
	key, err := change(r.Context())
	if err != nil {
		return err
	}
	return sendJSON(w, status, ViewKey(key))
}

// change returns the operation of a path after keysPath, or nil.
func (h *KeysAdmin) change(path string) func(context.Context) (guest.HandoffKey, error) {
	switch path {
	case "":
		return h.Keys.Add
	case "/rotate":
		return h.Keys.Rotate
	case "/revoke-all":
		return h.Keys.RevokeAll
	}
	id, operation, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	by := map[string]func(context.Context, string) (guest.HandoffKey, error){"activate": h.Keys.Activate, "retire": h.Keys.Retire, "revoke": h.Keys.Revoke}[operation]
	if by == nil {
		return nil
	}
	return func(ctx context.Context) (guest.HandoffKey, error) { return by(ctx, id) }
}

func (h *KeysAdmin) list(w http.ResponseWriter, r *http.Request) error {
	all, err := h.Keys.List(r.Context())
	if err != nil {
		return err
	}
	views := []KeyView{}
	for _, k := range all {
		views = append(views, ViewKey(k))
	}
	return sendJSON(w, http.StatusOK, map[string]any{"keys": views})
}

func sendJSON(w http.ResponseWriter, status int, body any) error {
	a, err := jsonAnswer(status, body)
	if err == nil {
		send(w, a)
	}
	return err
}
