package ext

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/operate"
)

// operations lists them as the command's help does, with those that show and stop background jobs.
func (s *Extensions) operations() []operate.Operation {
	return operate.InBackground(slices.Concat(
		s.installOperations(), s.tenantOperations(), s.recordOperations(), s.schemaOperations(), s.usageOperations(), s.tokenOperations(), s.serviceTokenOperations(), s.deadLetterOperations(),
	))
}

// errDisabled is returned by every operation that needs the open service.
var errDisabled = errors.New("extension storage is disabled, or no server has started on this data yet")

// on makes an operation's function from fn: it checks that the service is open, says when the operation was stopped,
// and makes errors refer to the inputs.
func on[In, Out any](s *Extensions, fn func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (out Out, err error) {
		if _, err := s.ready(); err != nil {
			return out, err
		}
		if out, err = fn(ctx, in); err != nil && ctx.Err() != nil {
			err = operate.ErrStopped
		}
		return out, aboutInput(err)
	}
}

// ready returns the opened service, or errDisabled.
func (s *Extensions) ready() (*ext.Service, error) {
	if s.opened == nil {
		return nil, errDisabled
	}
	return s.opened, nil
}

func (s *Extensions) now() ext.Moment { return ext.At(s.deps.Clock()) }

// tenantInput names a tenant, which need not exist.
type tenantInput struct {
	Tenant string `subject:"tenant,flag" value:"UUID" doc:"tenant UUID" example:"7e000000-0000-4000-8000-000000000001"`
}

func (in tenantInput) Check() error {
	_, err := in.owner()
	return err
}

// owner sets only the tenant. The error is an *operate.InputError.
func (in tenantInput) owner() (o ext.Owner, err error) {
	if o.Tenant, err = ext.ParseTenantID(in.Tenant); err != nil {
		err = &operate.InputError{Input: "tenant", Reason: err.Error()}
	}
	return o, err
}

// installInput names an install. Commands take both IDs as flags, because the order of two UUIDs is easily mistaken.
type installInput struct {
	Tenant  string `subject:"tenant,flag" value:"UUID" doc:"tenant UUID" example:"7e000000-0000-4000-8000-000000000001"`
	Install string `subject:"install,flag" value:"UUID" doc:"install UUID" example:"7e000000-0000-4000-8000-000000000011"`
}

func (in installInput) Check() error {
	_, err := in.owner()
	return err
}

// owner parses both IDs. The error is an *operate.InputError.
func (in installInput) owner() (o ext.Owner, err error) {
	if o, err = (tenantInput{in.Tenant}).owner(); err != nil {
		return o, err
	}
	if o.Install, err = ext.ParseInstallID(in.Install); err != nil {
		err = &operate.InputError{Input: "install", Reason: err.Error()}
	}
	return o, err
}

// parseTime returns 0 for "". name is the input that the error names.
func parseTime(name, text string) (ext.Moment, error) {
	if text == "" {
		return 0, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, &operate.InputError{Input: name, Reason: "expected a time, e.g. 2026-11-21T15:04:05Z"}
	}
	return ext.At(at), nil
}

// aboutInput reports a deleted install as not found rather than forbidden, because operators may access everything.
func aboutInput(err error) error {
	if errors.Is(err, ext.ErrInstallDeleted) || errors.Is(err, ext.ErrInstallDeleting) {
		return errcode.New(errcode.NotFound, err.Error())
	}
	if e, ok := errors.AsType[*ext.ValidationError](err); ok {
		name := path.Base(e.Pointer)
		if name == "overrides" { // until without overrides
			name = "until"
		}
		return &operate.InputError{Input: name, Reason: e.Reason}
	}
	return err
}

// plain returns an error that an operator may read: the protocol's errors have codes and texts for clients. Internal
// errors stay unchanged, so that their cause is logged.
func plain(err error) error {
	switch code := errcode.Of(err); {
	case err == nil || code == errcode.Internal || errcode.Message(err) != "" && code != errcode.Denied:
		return err
	case code == errcode.Denied: // operators may access everything, so the install is revoked or deleted
		return errcode.New(errcode.Conflict, err.Error())
	default:
		return errcode.New(code, err.Error())
	}
}

// parseWords parses e.g. settings=rw. With mayBeNone it accepts settings=, which means no access.
func parseWords(words []string, mayBeNone bool) (map[ext.Namespace]ext.Access, error) {
	access := map[ext.Namespace]ext.Access{}
	invalid := func(word, reason string) error {
		return &operate.InputError{Input: "namespace", Reason: word + ": " + reason}
	}
	for _, word := range words {
		name, letters, given := strings.Cut(word, "=")
		if name != "" && letters == "" && !(given && mayBeNone) {
			return nil, invalid(word, "access is missing: expected "+name+"=r, "+name+"=w or "+name+"=rw")
		}
		ns, err := ext.ParseNamespace(name)
		if err != nil {
			return nil, invalid(word, err.Error())
		}
		var a ext.Access
		if err := a.UnmarshalText([]byte(letters)); err != nil {
			return nil, invalid(word, "access "+err.Error())
		}
		access[ns] = a
	}
	return access, nil
}
