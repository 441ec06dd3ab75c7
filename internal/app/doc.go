// Package app composes the server from its services. No other package knows more than one service.
package app
