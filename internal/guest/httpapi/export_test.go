package httpapi

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
