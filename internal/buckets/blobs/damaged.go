package blobs

import "holdfast/internal/buckets"

// SetDamaged replaces the known bad copies, which are read last.
func (c *Cluster) SetDamaged(all []buckets.Copy) {
	marked := make(map[badCopy]struct{}, len(all))
	for _, bad := range all {
		marked[badCopy{bad.Node, bad.Path}] = struct{}{}
	}
	c.marked.Store(&marked)
}

// isBad reports whether a copy is known to be bad, by a read or by the database.
func (c *Cluster) isBad(m *member, path string) bool {
	key := badCopy{m.id, path}
	if c.bad.Contains(key) {
		return true
	}
	marked := c.marked.Load()
	if marked == nil {
		return false
	}
	_, bad := (*marked)[key]
	return bad
}
