package ext

import "holdfast/internal/app/service"

const NamedMost = namedMost

// Pages returns the console pages that are not made from operations.
func (s *Extensions) Pages() []service.Page { return s.console().Pages }
