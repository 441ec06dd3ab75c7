package ext

import "holdfast/internal/app/service"

// NamedMost is the maximum number of installs in an error of an audit.
const NamedMost = namedMost

// Pages returns the pages of the console that are written by hand.
func (s *Extensions) Pages() []service.Page { return s.console().Pages }
