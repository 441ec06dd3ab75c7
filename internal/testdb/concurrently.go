package testdb

import "sync"

// Concurrently runs fn for 0 to n-1 at the same time and returns the errors.
func Concurrently(n int, fn func(i int) error) []error {
	errs := make([]error, n)
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-begin
			errs[i] = fn(i)
		})
	}
	close(begin)
	wg.Wait()
	return errs
}
