package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"holdfast/internal/errcode"
	"holdfast/internal/tokenserver"
	"holdfast/internal/web"
)

// answer is an error in the protocol's JSON format.
type answer struct {
	httpStatus                  int
	status                      string // the member status, which clients compare
	location, name, description string // body, header, url or internal
}

// status is an error with a fixed answer.
type status struct {
	answer
	reason string // for the log; contains no client input
}

func (s *status) Error() string { return s.reason }

func (s *status) ErrorCode() errcode.Code { return errcode.Invalid }

var (
	errRoute         = &status{answer{http.StatusNotFound, "error", "url", "", "Not found"}, "no such path"}
	errMethod        = &status{answer{http.StatusMethodNotAllowed, "error", "body", "", "Method not allowed"}, "method not allowed"}
	errNoCredentials = &status{answer{http.StatusUnauthorized, "error", "body", "", "Unauthorized"}, "no Authorization header"}
	errScheme        = &status{answer{http.StatusUnauthorized, "error", "body", "", "Unsupported"}, "unsupported authorization scheme: expected Bearer"}
	errClientState   = &status{answer{http.StatusBadRequest, "error", "header", "X-Client-State", "Invalid client state value"}, "X-Client-State is malformed"}
)

// unsupported is the answer for an unknown application or version. name is the path segment.
func unsupported(name, description string) error {
	return &status{answer{http.StatusNotFound, "error", "url", name, description}, description}
}

// answerTo finds the answer for any error.
func answerTo(err error) answer {
	if refusal, ok := errors.AsType[*tokenserver.Refusal](err); ok { // first, because its cause may carry a code
		return answerToRefusal(refusal)
	}
	if own, ok := errors.AsType[*status](err); ok {
		return own.answer
	}
	if c, ok := errors.AsType[*web.ConditionError](err); ok {
		return answer{http.StatusBadRequest, "error", "header", c.Header, c.Reason}
	}
	switch {
	case errors.Is(err, tokenserver.ErrAccountsUnavailable):
		return answer{http.StatusServiceUnavailable, "error", "body", "", "Resource is not available"}
	case errors.Is(err, tokenserver.ErrElapsed):
		return answer{http.StatusGatewayTimeout, "elapsed", "body", "", "Elapsed"}
	}
	switch errcode.Of(err) {
	case errcode.Invalid:
		return answer{http.StatusBadRequest, "error", "body", "", "Bad request"}
	case errcode.Denied:
		return answer{http.StatusUnauthorized, tokenserver.BadCredentials.String(), "body", "", "Unauthorized"}
	case errcode.Unavailable:
		return answer{http.StatusServiceUnavailable, "internal-error", "internal", "", "Server error"}
	}
	return answer{http.StatusInternalServerError, "internal-error", "internal", "", "Server error"}
}

// answerToRefusal returns the answer for a refusal by the sign-in rules, as the reference server sends it.
func answerToRefusal(r *tokenserver.Refusal) answer {
	a := answer{http.StatusUnauthorized, r.Reason.String(), "body", "", "Unauthorized"}
	switch {
	case r.Reason == tokenserver.NotAdmitted:
		a.httpStatus, a.description = http.StatusForbidden, "New users are not allowed"
	case r.Reason == tokenserver.BadKeyID:
		a.location, a.description = "header", r.Detail
	case r.Reason == tokenserver.BadClientState && r.Detail != "":
		a.location, a.name = "header", "X-Client-State"
		a.description = "Unacceptable client-state value " + r.Detail
	}
	return a
}

const retryAfter = 10 // seconds

// WriteError writes an error in the protocol's format. It never exposes causes.
func WriteError(w http.ResponseWriter, _ *http.Request, err error) {
	a := answerTo(err)
	h := w.Header()
	switch a.httpStatus {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		if h.Get("Retry-After") == "" {
			h.Set("Retry-After", strconv.Itoa(retryAfter))
		}
	}
	send(w, a.httpStatus, a.body())
}

// body encodes the answer.
func (a answer) body() []byte {
	type entry struct {
		Location    string `json:"location"`
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	body, _ := json.Marshal(struct {
		Status string  `json:"status"`
		Errors []entry `json:"errors"`
	}{a.status, []entry{{a.location, a.name, a.description}}})
	return body
}

// send sends JSON that nobody may cache.
func send(w http.ResponseWriter, httpStatus int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(httpStatus)
	_, _ = w.Write(body)
}
