package sync

import "holdfast/internal/operate"

// operations returns the operations of the service.
func (s *Storage) operations() []operate.Operation { return s.tokenOperations() }
