// Package httpapi serves the TokenServer API 1.0: sign-ins (signin.go), and account events from the accounts server
// (events.go).
package httpapi
