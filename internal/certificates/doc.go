// Package certificates provides the certificate of the listeners: from two files, which it reads again when they
// change, so that a new certificate needs no restart.
package certificates
