// Package listen knows a server's addresses: how clients reach them, why the system refuses an address, and which
// local Holdfast server uses it.
package listen
