// Package certificates provides the listeners' certificate, from two files that are reread when they change, or from
// a certificate authority with ACME (RFC 8555).
package certificates
