// Package secrets stores generated secrets in the data folder, and keeps a server from serving data written with
// other secrets.
package secrets
