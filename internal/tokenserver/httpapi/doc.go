// Package httpapi serves the TokenServer API 1.0: sign-ins (signin.go), and account events from the accounts server
// (events.go). Requests are routed by raw path (route.go). Errors are an object with a status and a list of one error
// (errors.go).
package httpapi
