// Package httpapi speaks the TokenServer API 1.0.
//
// A request goes: route from the raw path (route.go), then for a sign-in the
// access token, the headers of the keys, the application, and the service
// (signin.go), for an account event its token (events.go); every error leaves
// through one writer (errors.go), as an object with a status and one entry in
// a list of errors.
package httpapi
