// Package secrets stores generated secrets in the data folder (file.go), and keeps a server from serving data written
// with other secrets (guard.go).
package secrets
