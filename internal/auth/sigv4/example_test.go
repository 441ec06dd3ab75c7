package sigv4_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"holdfast/internal/auth/sigv4"
)

// A handler that stores an object verifies the request, then reads the body. It keeps the bytes only if the body ends
// without an error.
func ExampleVerifier_Verify() {
	verifier := sigv4.New("us-east-1", func() time.Time { return exampleTime })
	handler := func(w http.ResponseWriter, r *http.Request) {
		var account string // set by the lookup
		lookup := func(_ context.Context, accessKeyID string) (string, bool, error) {
			account = "alice"
			return exampleSecret, accessKeyID == exampleKey, nil
		}
		signed, err := verifier.Verify(r.Context(), sigv4.FromHTTP(r), lookup)
		if e, ok := errors.AsType[*sigv4.Error](err); ok {
			http.Error(w, e.Kind.Code(), http.StatusForbidden)
			return
		}
		body, err := signed.Body(r.Body, sigv4.BodyOptions{MaxSize: 5 << 40})
		if err == nil {
			_, err = io.Copy(io.Discard, body) // to a temporary file
		}
		if e, ok := errors.AsType[*sigv4.Error](err); ok {
			http.Error(w, e.Kind.Code(), http.StatusBadRequest)
			return
		}
		result, _ := body.Result()
		fmt.Fprintf(w, "%s stored %d bytes, ETag %x", account, result.Size, result.MD5)
	}
	for _, sent := range []string{"Welcome to Amazon S3.", "Welcome to Amazon S4."} {
		r := httptest.NewRequest(http.MethodPut, "/test%24file.text", strings.NewReader(sent))
		r.Host, r.Header = "examplebucket.s3.amazonaws.com", exampleRequests()["PUT object"].Header
		w := httptest.NewRecorder()
		handler(w, r)
		fmt.Println(strings.TrimSpace(w.Body.String()))
	}
	// Output:
	// alice stored 21 bytes, ETag d447d0e8f289f16a12ff6027ce77c258
	// XAmzContentSHA256Mismatch
}
