// Package optional has values that may be absent.
package optional

// Of is a T that may be absent. The zero Of is absent.
type Of[T any] struct {
	Value T
	Set   bool
}

// Some returns an Of with the value v.
func Some[T any](v T) Of[T] { return Of[T]{Value: v, Set: true} }
