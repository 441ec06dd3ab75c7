// Package app puts the services together: it is the only one that knows more than
// one of them. It holds the configuration tree, opens what each service needs (a
// file per service), runs the listeners and the sweeps, and shuts down in order.
// The verbs of the command line are in the folder cli.
package app
