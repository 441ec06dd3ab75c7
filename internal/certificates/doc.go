// Package certificates provides the certificate of the listeners. It comes from two files, which are read again when
// they change, or from a certificate authority by the protocol ACME (RFC 8555). A new certificate needs no restart.
package certificates
