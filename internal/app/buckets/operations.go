package buckets

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

// operations lists them as the command's help does, with those that show and stop background jobs.
func (s *Buckets) operations() []operate.Operation {
	return operate.InBackground(slices.Concat(
		s.accountOperations(), s.keyOperations(), s.bucketOperations(), s.nameOperations(), s.objectOperations(), s.versionOperations(), s.uploadOperations(), s.lifecycleOperations(), s.policyOperations(), s.notificationOperations(), s.deadLetterOperations(), s.quotaOperations(), s.tokenOperations(), s.nodeOperations(), s.damageOperations(), s.auditOperations(), s.importOperations(),
	))
}

var (
	// errDisabled is returned by every operation while the service is disabled.
	errDisabled          = errors.New("buckets are disabled, or no server has started on this data yet")
	errAccountConfigured = errcode.New(errcode.Conflict, "the account is in the configuration: remove it there, and restart the server")
)

// on makes an operation's function from fn: it checks that the service is open and that the database is not a partial
// copy.
func on[In, Out any](s *Buckets, fn func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (out Out, err error) {
		if s.opened == nil {
			return out, errDisabled
		}
		// An audit would remove bodies whose objects are not copied yet.
		if err := s.deps.Whole(ctx); err != nil {
			return out, err
		}
		return fn(ctx, in)
	}
}

// onNodes is on for jobs that read or write bodies.
func onNodes[In, Out any](s *Buckets, fn func(context.Context, In, operate.Progress) (Out, error)) func(context.Context, In, operate.Progress) (Out, error) {
	return func(ctx context.Context, in In, progress operate.Progress) (Out, error) {
		return on(s, func(ctx context.Context, in In) (out Out, err error) {
			err = s.withNodes(ctx, func(ctx context.Context) error {
				out, err = fn(ctx, in, progress)
				return err
			})
			return out, err
		})(ctx, in)
	}
}

// about puts a name before an error that the operator caused. Other errors stay.
func about(name string, err error) error {
	switch errcode.Of(err) {
	case errcode.NotFound, errcode.Conflict, errcode.Invalid:
		return fmt.Errorf("%s: %w", name, err)
	}
	return err
}

// account reads an account by name.
func (s *Buckets) account(ctx context.Context, name string) (buckets.Account, error) {
	a, err := s.opened.Account(ctx, name)
	return a, about(name, err)
}

// usageOutput is an account's or a bucket's use, with its own quotas. Noncurrent versions and incomplete uploads count.
type usageOutput struct {
	Objects      int64         `json:"objects" title:"Objects" of:"ObjectsQuota" least:"0"`
	ObjectsQuota int64         `json:"objectsQuota,omitempty" title:"Object quota" zero:"-" least:"1" doc:"missing: no limit"`
	Bytes        service.Bytes `json:"bytes" title:"Bytes" of:"BytesQuota" least:"0"`
	BytesQuota   service.Bytes `json:"bytesQuota,omitempty" title:"Byte quota" zero:"-" least:"1" doc:"missing: no limit"`
}

// outputOfUsage converts a use; quota 0 is no limit.
func outputOfUsage(u buckets.Usage, q buckets.Quota) usageOutput {
	return usageOutput{u.Objects, q.Objects, service.Bytes(u.Bytes), service.Bytes(q.Bytes)}
}
