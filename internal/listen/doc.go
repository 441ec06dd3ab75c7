// Package listen knows the addresses that a server listens on: how clients reach them, why the system refuses one, and
// which Holdfast server on this machine uses it already.
package listen
