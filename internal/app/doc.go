// Package app composes the server from its services. No other package knows more than
// one service. It holds the configuration tree, opens the services and their
// databases, runs listeners and sweeps, and shuts down in order. Package cli has the
// commands.
package app
