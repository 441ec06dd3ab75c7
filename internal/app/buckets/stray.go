package buckets

import (
	"io"
	"net/http"
	"strings"
)

// AnswerStray answers S3 clients on the main listener in XML, and reports whether it did. S3 clients do not show JSON,
// and retry a 200 response that is not XML.
func AnswerStray(w http.ResponseWriter, r *http.Request) bool {
	if !isS3(r) {
		return false
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>InvalidRequest</Code><Message>this is not the S3 endpoint: use the address in buckets.listen, http://127.0.0.1:9000 by default</Message></Error>
`)
	return true
}

// isS3 recognizes a request by its signature, version 4 or 2, in the header or in the query.
func isS3(r *http.Request) bool {
	authorization := r.Header.Get("Authorization")
	return strings.HasPrefix(authorization, "AWS4-") || strings.HasPrefix(authorization, "AWS ") || strings.Contains(r.URL.RawQuery, "X-Amz-Signature=")
}
