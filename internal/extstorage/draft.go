package extstorage

import "context"

// ActiveSchema returns the schema that validates puts; version 0 means that puts are not validated. The token needs Read.
func (s *Service) ActiveSchema(ctx context.Context, r Request, ns Namespace) (Schema, error) {
	p, err := s.may(ctx, r.Grant, ns, Read)
	if err != nil {
		return Schema{}, err
	}
	return s.loadSchema(ctx, namespaceOf{p.Owner, ns})
}

// CheckPut checks a put against limits and the active schema without storing the record.
func (s *Service) CheckPut(ctx context.Context, r Request, t Task) error {
	p, err := s.may(ctx, r.Grant, t.Namespace, Read)
	if err != nil {
		return err
	}
	if err := s.checkTask(&t); err != nil {
		return err
	}
	_, err = s.validate(ctx, namespaceOf{p.Owner, t.Namespace}, t.Value, t.Schema)
	return t.inRequest(err)
}

// CheckDocument checks a schema document without a trial, so it is fast.
func (s *Service) CheckDocument(document []byte) error {
	_, err := s.canonicalSchema(document)
	return err
}
