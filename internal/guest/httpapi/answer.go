package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
)

// answer is a response, complete in memory: a repeated request gets the same bytes.
type answer struct {
	Status      int
	ContentType string // "" without a body
	// "" without the header
	Location string
	Etag     string
	Body     []byte
}

// jsonAnswer encodes a body.
func jsonAnswer(status int, body any) (answer, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return answer{}, errcode.Wrap(errcode.Internal, "encode the response", err)
	}
	return answer{Status: status, ContentType: "application/json", Body: append(text, '\n')}, nil
}

// reply sends the result of a mutation. render must use only the result and the digested parts of the request, so
// that repeats get the same bytes.
func reply[R any](x *exchange, o guest.Once[R], err error, render func(R) (answer, error)) error {
	if err != nil {
		if changed, ok := errors.AsType[*guest.ChangedError](err); ok && changed.Tag != "" {
			x.out.Header().Set("Etag", quoted(changed.Tag))
		}
		return err
	}
	a, err := render(o.Result)
	if err != nil {
		return err
	}
	if o.Replayed {
		x.out.Header().Set("Idempotency-Replayed", "true")
	}
	send(x.out, a)
	return nil
}

// noContent renders a result that clients need not see.
func noContent[R any](R) (answer, error) { return answer{Status: http.StatusNoContent}, nil }

// send ignores write errors: the request was processed even if the client disconnected.
func send(w http.ResponseWriter, a answer) {
	h := w.Header()
	if a.ContentType != "" {
		h.Set("Content-Type", a.ContentType)
		h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	if a.Etag != "" {
		h.Set("Etag", a.Etag)
	}
	if a.Location != "" {
		h.Set("Location", a.Location)
	}
	w.WriteHeader(a.Status)
	if len(a.Body) > 0 {
		_, _ = w.Write(a.Body)
	}
}
