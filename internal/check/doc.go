// Package check finds what is wrong with a server: its configuration, files, secrets, databases, addresses, and a backup of
// its data. It changes nothing. It knows no service: each adds its own findings.
package check
