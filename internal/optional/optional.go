// Package optional represents values that may be absent.
package optional

// Of is a T that may be absent.
type Of[T any] struct {
	Value T
	Set   bool
}

func Some[T any](v T) Of[T] { return Of[T]{Value: v, Set: true} }
