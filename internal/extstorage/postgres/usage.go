package postgres

import (
	"context"

	es "holdfast/internal/extstorage"
)

// Usage implements extstorage.Store.
func (s *Store) Usage(ctx context.Context, o es.Owner, at es.Moment) (usage es.Usage, err error) {
	if err := o.Check(); err != nil {
		return es.Usage{}, err
	}
	var (
		c           es.Counters
		namespace   *string // NULL: no record is live
		keys, bytes *int64
	)
	err = s.db.Each(ctx, sqlUsage, []any{string(o.Tenant), string(o.Install), now(at)},
		func() { usage = es.Usage{} },
		func() error {
			usage.Counters = c
			if namespace != nil {
				usage.Namespaces = append(usage.Namespaces, es.NamespaceUsage{Namespace: es.Namespace(*namespace), Keys: *keys, Bytes: *bytes})
			}
			return nil
		}, &c.Bytes, &c.Keys, &c.Namespaces, &namespace, &keys, &bytes)
	if err != nil {
		return es.Usage{}, err
	}
	return usage, nil
}

// Audit implements extstorage.Store. The first line of its statement is the
// install's, the others are of namespaces.
func (s *Store) Audit(ctx context.Context, o es.Owner) (audit es.Audit, err error) {
	if err := o.Check(); err != nil {
		return es.Audit{}, err
	}
	var (
		namespace      es.Namespace
		c              es.Counters
		counted, bytes int64
	)
	err = s.db.Each(ctx, sqlAudit, []any{string(o.Tenant), string(o.Install)},
		func() { audit = es.Audit{} },
		func() error {
			if namespace == "" {
				audit.Counters = c
				return nil
			}
			if counted > 0 {
				audit.Counted.Namespaces++
			}
			audit.Counted.Keys += counted
			audit.Counted.Bytes += bytes
			if c.Keys != counted {
				audit.Namespaces = append(audit.Namespaces, es.NamespaceAudit{Namespace: namespace, Keys: c.Keys, Counted: counted})
			}
			return nil
		}, &namespace, &c.Bytes, &c.Keys, &c.Namespaces, &counted, &bytes)
	if err != nil {
		return es.Audit{}, err
	}
	return audit, nil
}
