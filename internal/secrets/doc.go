// Package secrets keeps the secrets that the server generates in a file of the data folder (file.go), and keeps a server
// from serving data with other secrets than those that the data was written with (guard.go).
package secrets
