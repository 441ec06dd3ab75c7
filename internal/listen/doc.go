// Package listen knows a server's addresses: how clients reach them, why the system refuses one, and which local
// Holdfast server uses one.
package listen
