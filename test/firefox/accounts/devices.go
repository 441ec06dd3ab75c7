package accounts

import (
	"encoding/json"
	"net/http"
	"time"
)

type device struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Type       string            `json:"type"`
	Commands   map[string]string `json:"availableCommands"`
	Current    bool              `json:"isCurrentDevice"`
	LastAccess int64             `json:"lastAccessTime"`
}

// registerDevice registers the browser. Other browsers hide the tabs and clients of unregistered browsers.
func (s *Server) registerDevice(w http.ResponseWriter, r *http.Request, own *session) {
	in := device{ID: randomHex(16), Type: "desktop"}
	if own.device != nil {
		in = *own.device
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		refuse(w, badRequest)
		return
	}
	in.LastAccess = time.Now().UnixMilli()
	own.device = &in
	answer(w, in)
}

func (s *Server) listDevices(w http.ResponseWriter, _ *http.Request, own *session) {
	list := []device{}
	for _, other := range s.sessions {
		if other.device != nil {
			d := *other.device
			d.Current = other == own
			list = append(list, d)
		}
	}
	answer(w, list)
}

func (s *Server) listClients(w http.ResponseWriter, _ *http.Request, _ *session) {
	answer(w, []any{})
}

func (s *Server) notifyDevices(w http.ResponseWriter, _ *http.Request, _ *session) {
	answer(w, struct{}{})
}

func (s *Server) listCommands(w http.ResponseWriter, _ *http.Request, _ *session) {
	answer(w, map[string]any{"index": 0, "last": true, "messages": []any{}})
}

func (s *Server) sessionStatus(w http.ResponseWriter, _ *http.Request, _ *session) {
	answer(w, map[string]any{"state": "verified", "uid": s.account.uid})
}

func (s *Server) endSession(w http.ResponseWriter, _ *http.Request, own *session) {
	delete(s.sessions, own.id)
	answer(w, struct{}{})
}

// accountStatus tells a browser whose session was refused whether the account exists.
func (s *Server) accountStatus(w http.ResponseWriter, r *http.Request) {
	answer(w, map[string]any{"exists": r.URL.Query().Get("uid") == s.account.uid})
}

func (s *Server) profile(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{
		"uid":           s.account.uid,
		"email":         s.account.email,
		"avatar":        "",
		"avatarDefault": true,
	})
}
