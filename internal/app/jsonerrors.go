package app

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"holdfast/internal/web"
)

// sendError sends an error from the admin or internal listener: {"error": {"code", "message", "requestId"}}.
func sendError(w http.ResponseWriter, status int, message string) {
	type body struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		RequestID string `json:"requestId,omitempty"`
	}
	text, err := json.Marshal(map[string]body{"error": {errorCode(status), message, w.Header().Get("X-Request-Id")}})
	if err != nil {
		panic(err) // strings can always be encoded
	}
	web.SendJSONLine(w, status, text)
}

// errorCode returns the code for a status, e.g. NOT_FOUND. Four statuses have another name than in net/http.
func errorCode(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "VALIDATION_FAILED"
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusInternalServerError:
		return "INTERNAL_ERROR"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	}
	return strings.ToUpper(strings.ReplaceAll(http.StatusText(status), " ", "_"))
}

// withJSONErrors converts plain-text errors, e.g. from the standard library, to JSON.
func withJSONErrors(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := &errorWriter{ResponseWriter: w}
		next.ServeHTTP(e, r)
		if e.status == 0 {
			return
		}
		message := strings.ToValidUTF8(strings.TrimSpace(e.text.String()), "")
		w.Header().Del("X-Content-Type-Options")
		sendError(w, e.status, message)
	})
}

// maxErrorText is in bytes; the rest is dropped.
const maxErrorText = 4 << 10

// errorWriter buffers plain-text errors and passes other responses through.
type errorWriter struct {
	http.ResponseWriter
	begun  bool
	status int // buffered error; 0: none
	text   bytes.Buffer
}

func (w *errorWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader holds back an error without a content type or with plain text. Statuses below 200 are passed on.
func (w *errorWriter) WriteHeader(status int) {
	if w.begun {
		return
	}
	if status >= 200 {
		w.begun = true
	}
	if kind := w.Header().Get("Content-Type"); status >= 400 && (kind == "" || strings.HasPrefix(kind, "text/plain")) {
		w.status = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write drops text beyond maxErrorText, but reports it as written.
func (w *errorWriter) Write(b []byte) (int, error) {
	if !w.begun {
		w.begun = true
	}
	if w.status == 0 {
		return w.ResponseWriter.Write(b)
	}
	w.text.Write(b[:min(len(b), maxErrorText-w.text.Len())])
	return len(b), nil
}
