package httpapi

// MutatingRoutes returns the method and the path template of each route with an idempotency key.
func MutatingRoutes() (all []string) {
	for template, methods := range actions {
		for method, a := range methods {
			if a.mutates {
				all = append(all, method+" "+template)
			}
		}
	}
	return all
}
