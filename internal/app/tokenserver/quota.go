package tokenserver

import (
	"context"
	"math"
	"strconv"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/optional"
	"holdfast/internal/tokenserver"
)

// inheritQuota copies the newest earlier quota to a new storage user, unless it already has one. It is
// tokenserver.Options.Inherit: it runs before the user's first token is issued.
func (s *Accounts) inheritQuota(ctx context.Context, from []tokenserver.User, to *tokenserver.User) error {
	// One query reads the new user's quota and the earlier users' quotas.
	totals, err := s.storage.Totals(ctx, append([]tokenserver.User{*to}, from...))
	if err != nil {
		return err
	}
	if totals[0].Quota.Set {
		return nil
	}
	for _, t := range totals[1:] {
		if t.Quota.Set {
			return s.storage.SetQuota(ctx, to, t.Quota)
		}
	}
	return nil
}

// quotaOperation declares accounts/quota, which shows the quota if none is given.
func (s *Accounts) quotaOperation() operate.Operation {
	return operate.NewChange(operate.About{
		Path: "accounts/quota", Doc: "Show or set an account's quota", Title: "Quota", Button: "Set quota", Stays: true,
		More: "Shows an account's usage and quota, or sets its quota in bytes, or with a unit, e.g. 500MiB. From the\n" +
			"account's next write on, the quota overrides syncstorage.limits.max_user_quota; none removes it. Like\n" +
			"that setting, it is counted with syncstorage.enable_quota and enforced with syncstorage.enforce_quota.\n" +
			"An account keeps its quota when its keys change, and loses it when it is deleted or moves to another\n" +
			"node.\n\n" +
			"On a server with storage but without accounts, name the storage user instead: tokenserver users quota.",
		Example: "0123456789abcdef0123456789abcdef\n0123456789abcdef0123456789abcdef 2GiB\n0123456789abcdef0123456789abcdef none\n",
	}, s.changeQuota)
}

type quotaInput struct {
	accountInput
	quotaValue
}

// quotaValue is the input that both quota operations share.
type quotaValue struct {
	Quota string `flag:"quota" arg:"BYTES | unlimited | none" doc:"bytes, e.g. 5000000 or 500MiB, unlimited, or none for the configured quota; omit it to show the quota"`
}

// Check refuses a quota before anything is read. 0 is refused because it could mean unlimited or nothing.
func (in quotaValue) Check() error {
	_, _, err := in.parse()
	return err
}

// parse returns unlimited as 0, and an unset quota to remove it.
func (in quotaValue) parse() (quota optional.Of[int64], isGiven bool, err error) {
	switch in.Quota {
	case "":
		return quota, false, nil
	case "none":
		return quota, true, nil
	case "unlimited":
		return optional.Some[int64](0), true, nil
	}
	n, ok := service.ParseBytes(in.Quota)
	if !ok || n < 1 || n == math.MaxInt64 {
		return quota, true, &operate.InputError{Input: "quota", Reason: "expected a number of bytes above 0, e.g. 5000000 or 500MiB, unlimited, or none"}
	}
	return optional.Some(n), true, nil
}

// quota is a quota in bytes; 0 means unlimited.
type quota service.Bytes

// String returns the exact number, for scripts.
func (q quota) String() string {
	if q == 0 {
		return "unlimited"
	}
	return strconv.FormatInt(int64(q), 10)
}

// Rounded is for pages and terminals.
func (q quota) Rounded() string {
	if q == 0 {
		return q.String()
	}
	return service.FormatBytes(int64(q))
}

// quotaOutput is the current storage user's usage and effective quota. notice is "" if the quota was only shown.
type quotaOutput struct {
	UID   int64         `json:"uid" title:"UID"`
	Bytes service.Bytes `json:"bytes" title:"Stored" least:"0"`
	Quota quotaOf       `json:"-" title:"Quota"`
	Limit int64         `json:"quota" least:"0" doc:"0: no limit"`
	Own   bool          `json:"ownQuota" doc:"own quota, not the configured default"`

	notice string
}

// quotaOf shows a quota with its origin.
type quotaOf struct {
	limit quota
	isOwn bool
}

// String returns exact bytes and the origin.
func (q quotaOf) String() string { return q.limit.String() + q.origin() }

// Rounded returns rounded bytes and the origin.
func (q quotaOf) Rounded() string { return q.limit.Rounded() + q.origin() }

// origin continues the quota with where it was set.
func (q quotaOf) origin() string {
	if q.isOwn {
		return ", the account's own"
	}
	return ", the setting syncstorage.limits.max_user_quota"
}

func (q quotaOutput) Notice() string { return q.notice }

// errNoStorage is returned by operations that read or write records on a server without storage.
var errNoStorage = errcode.New(errcode.Conflict, "Firefox Sync storage is disabled: set syncstorage.enabled = true")

// changeQuota sets or shows an account's quota. The account must have storage on this server.
func (s *Accounts) changeQuota(ctx context.Context, in quotaInput) (quotaOutput, error) {
	if !s.storage.IsOpen() {
		return quotaOutput{}, errNoStorage
	}
	users, err := s.usersOf(ctx, in.Account)
	if err != nil {
		return quotaOutput{}, err
	}
	return s.setQuota(ctx, users, in.quotaValue)
}

// setQuota sets the quota, if given, of all the account's storage users: replaced users' tokens may still be valid,
// and new users inherit the last user's quota. It returns the quota of the first, current user.
func (s *Accounts) setQuota(ctx context.Context, users []tokenserver.User, in quotaValue) (out quotaOutput, err error) {
	bytes, isGiven, err := in.parse()
	if err != nil {
		return out, err
	}
	for i := range users {
		if !isGiven {
			break
		}
		if err := s.storage.SetQuota(ctx, &users[i], bytes); err != nil {
			return out, err
		}
	}
	usage, err := s.storage.Usage(ctx, &users[0])
	if err != nil {
		return out, err
	}
	out = quotaOutput{
		UID: users[0].UID, Bytes: service.Bytes(usage.Bytes), Quota: quotaOf{quota(usage.Quota), usage.OwnQuota}, Limit: usage.Quota, Own: usage.OwnQuota,
	}
	if isGiven {
		out.notice = "the quota is set: " + out.Quota.String()
		if bytes.Set {
			out.notice += s.ineffective()
		}
	}
	return out, nil
}

// ineffective continues the notice if the configuration ignores the quota that was set; otherwise it returns "".
func (s *Accounts) ineffective() string {
	switch counted, enforced := s.storage.Quotas(); {
	case !counted:
		return ", but quotas are off: set syncstorage.enable_quota to count them, and syncstorage.enforce_quota to enforce them"
	case !enforced:
		return ", but quotas are counted and not enforced: set syncstorage.enforce_quota to refuse writes over quota"
	}
	return ""
}
