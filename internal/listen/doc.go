// Package listen knows a server's addresses.
package listen
