// Package httpapi serves the TokenServer API 1.0.
//
// Each request is routed by its raw path (route.go). A sign-in then checks the access
// token, the key headers and the application, and calls the service (signin.go). An
// account event checks its token (events.go). One writer (errors.go) writes all errors, as
// an object with a status and a list of one error.
package httpapi
