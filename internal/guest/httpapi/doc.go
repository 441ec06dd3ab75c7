// Package httpapi is the guest REST API under /bff/consumer/v1: JSON bodies, a signed session cookie, an
// Idempotency-Key per mutation, and errors as application/problem+json (RFC 9457).
package httpapi
