package httpapi

// MutatingRoutes returns method and path template of each route that requires an idempotency key.
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
