package accounts

import (
	"encoding/json"
	"net/http"
	"regexp"
)

// routes registers the endpoints that Firefox and (the last two) a tokenserver request.
func (s *Server) routes() {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("POST /v1/oauth/token", s.signedIn(s.issueToken))
	s.mux.HandleFunc("GET /v1/session/status", s.signedIn(s.sessionStatus))
	s.mux.HandleFunc("POST /v1/session/destroy", s.signedIn(s.endSession))
	s.mux.HandleFunc("POST /v1/account/device", s.signedIn(s.registerDevice))
	s.mux.HandleFunc("GET /v1/account/devices", s.signedIn(s.listDevices))
	s.mux.HandleFunc("POST /v1/account/devices/notify", s.signedIn(s.notifyDevices))
	s.mux.HandleFunc("GET /v1/account/device/commands", s.signedIn(s.listCommands))
	s.mux.HandleFunc("GET /v1/account/attached_clients", s.signedIn(s.listClients))
	s.mux.HandleFunc("POST /v1/oauth/destroy", s.locked(s.destroyToken))
	s.mux.HandleFunc("GET /v1/account/status", s.locked(s.accountStatus))
	s.mux.HandleFunc("GET /v1/profile", s.locked(s.profile))
	s.mux.HandleFunc("POST /v1/verify", s.locked(s.verifyToken))
	s.mux.HandleFunc("GET /v1/jwks", s.locked(s.publicKeys))
}

func (s *Server) locked(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		h(w, r)
	}
}

var hawkID = regexp.MustCompile(`^Hawk .*\bid="([0-9a-f]{64})"`)

// signedIn checks the session. After invalidToken a browser requests /session/status and /account/status, and then waits
// for a new sign-in.
func (s *Server) signedIn(h func(http.ResponseWriter, *http.Request, *session)) http.HandlerFunc {
	return s.locked(func(w http.ResponseWriter, r *http.Request) {
		m := hawkID.FindStringSubmatch(r.Header.Get("Authorization"))
		if m == nil || s.sessions[m[1]] == nil {
			refuse(w, invalidToken)
			return
		}
		h(w, r, s.sessions[m[1]])
	})
}

// refusal is an error; the browser reacts to Number.
type refusal struct {
	Code    int    `json:"code"`
	Number  int    `json:"errno"`
	Kind    string `json:"error"`
	Message string `json:"message"`
}

var (
	badRequest   = refusal{http.StatusBadRequest, 107, "Bad Request", "Invalid parameter in request body"}
	invalidToken = refusal{http.StatusUnauthorized, 110, "Unauthorized", "The authentication token could not be found"}
)

func refuse(w http.ResponseWriter, f refusal) { write(w, f.Code, f) }

func answer(w http.ResponseWriter, body any) { write(w, http.StatusOK, body) }

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
