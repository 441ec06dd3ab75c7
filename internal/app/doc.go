// Package app puts the rooms together: it is the only one that knows more than
// one of them. It holds the configuration tree, opens what each room needs (a
// file per room), runs the listeners and the sweeps, and shuts down in order.
// The verbs of the command line are in the folder cli.
package app
