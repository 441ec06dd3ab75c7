// Package app composes the server from its services. It holds the configuration, opens the services and their
// databases, runs listeners and sweeps, and shuts down in order. No other package knows more than one service.
// Package cli contains the commands.
package app
