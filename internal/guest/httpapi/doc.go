// Package httpapi is the REST API of guests under /bff/consumer/v1: JSON in and out, a
// signed cookie for the session, an Idempotency-Key for each mutation, and errors as
// application/problem+json (RFC 9457).
package httpapi
