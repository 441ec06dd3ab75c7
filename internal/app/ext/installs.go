package ext

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/inspection"
	"holdfast/internal/operate"
)

// installOperations declares the operations on installs, with export, import and deletion at the end.
func (s *Extensions) installOperations() []operate.Operation {
	return append(slices.Concat([]operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "installs", Doc: "List installs with the data that they hold", Title: "Installs", Empty: "There are no installs.",
			Group: "Manage installs: tier, quotas and access", PageRows: ext.MaxPage,
			More: "Lists installs that are registered, revoked or recently deleted, or that ever stored a record.\n" +
				"With --revoked, lists only installs without access, and how to delete them.",
			Example: "\n--revoked\n",
		}, on(s, s.listInstalls)),
		operate.NewRead(operate.About{
			Access: operate.ForViewers, Path: "installs/show", Doc: "Show an install's registration and usage", Title: "Install", Opens: "records",
		}, on(s, s.showInstall)),
		operate.NewChange(operate.About{
			Path: "installs/set", Doc: "Register an install, or replace its registration", NewRow: true, Title: "Register an install", Button: "Register",
			Text: "This replaces the registration: values that are not given are removed.",
			More: "Omitted values are removed. Quotas override the tier's quotas for at most 14 days. With --namespace, tokens can\n" +
				"use only the named namespaces, with at most the given access.",
			Example: "--tenant $TENANT --install $INSTALL --tier large\n" +
				"--tenant $TENANT --install $INSTALL --bytes 1000000000 --namespace settings=rw --namespace log=r\n" +
				"--tenant $TENANT --install $INSTALL --restore\n",
		}, on(s, s.setInstall)),
		operate.NewChange(operate.About{
			Path: "installs/quota", Doc: "Change only an install's tier or quotas", Title: "Change quota", Button: "Change quota", Stays: true,
			Text: "Omitted values stay, as does the install's access.",
			More: "Omitted values stay, as does the install's access. Quotas override the tier's quotas for at most 14 days. To\n" +
				"register an install, use ext installs set.",
			Example: "--tenant $TENANT --install $INSTALL --tier large\n" +
				"--tenant $TENANT --install $INSTALL --bytes 1000000000\n" +
				"--tenant $TENANT --install $INSTALL --reset\n",
		}, on(s, s.changeQuota)),
		operate.NewChange(operate.About{
			Path: "installs/revoke", Doc: "Revoke all access to an install; its data is kept", Button: "Revoke access", Stays: true, Danger: true,
			Ask: "All the install's tokens are refused. The data is kept.",
			More: "The install, registered or not, is refused on every running server within a second. Its data is kept. To restore\n" +
				"access: ext installs restore. To delete the data: ext installs delete.",
		}, on(s, s.revokeInstall)),
		operate.NewChange(operate.About{
			Path: "installs/restore", Doc: "Restore access to a revoked or deleted install", Button: "Restore", Stays: true,
			More: "Its registration stays. After a deletion, only tokens that are created from now on are accepted.",
		}, on(s, s.restoreInstall)),
	}, s.transferOperations()), s.installDeletion())
}

// amount is a quota with its use; keyAmount's limit is for each namespace, and its use the sum.
type amount struct {
	Limit int64 `json:"limit"`
	Used  int64 `json:"used"`
}

type keyAmount struct {
	PerNamespace int64 `json:"limitPerNamespace"`
	Used         int64 `json:"used"`
}

// installOutput is an install in a list. JSON has the quotas and their use together; the table has a column with a bar
// for each.
type installOutput struct {
	Tenant  string `json:"tenant" title:"Tenant" subject:"tenant"`
	Install string `json:"install" title:"Install" subject:"install"`
	State   string `json:"state" title:"State" enum:"registered,not registered,revoked,deleting,deleted"`
	// Tier is "" for the default tier.
	Tier       string     `json:"tier" title:"Tier" zero:"-"`
	RevokedAt  *time.Time `json:"revokedAt"`
	Bytes      amount     `json:"bytes"`
	Keys       keyAmount  `json:"keys"`
	Namespaces amount     `json:"namespaces"`

	Stored   service.Bytes `json:"-" title:"Bytes" of:"MaxBytes"`
	MaxBytes int64         `json:"-"`
	// Share is the used share of the byte quota, in percent.
	Share         string `json:"-" title:"Share"`
	Records       int64  `json:"-" title:"Keys"`
	Used          int64  `json:"-" title:"Namespaces" of:"MaxNamespaces"`
	MaxNamespaces int64  `json:"-"`
}

// Offers hides buttons without effect: a quota needs a registration, and only a closed install can be restored.
func (o installOutput) Offers(verb string) bool {
	if verb == "quota" {
		return o.State == stateRegistered || o.State == stateRevoked
	}
	isClosed := o.State == stateRevoked || o.State == stateDeleted
	return verb != "restore" && verb != "revoke" || isClosed == (verb == "restore")
}

const (
	// States of an install. A deletion hides a revocation, and a revocation hides the registration.
	stateUnknown    = "not registered"
	stateRegistered = "registered"
	stateRevoked    = "revoked"
	stateDeleting   = "deleting"
	stateDeleted    = "deleted"
)

// stateOf returns the state that decides whether tokens are accepted.
func stateOf(in *ext.Install) string {
	switch {
	case in.Deletion.FinishedAt != 0:
		return stateDeleted
	case in.Deletion.StartedAt != 0:
		return stateDeleting
	case in.RevokedAt != 0:
		return stateRevoked
	case in.CreatedAt == 0:
		return stateUnknown
	}
	return stateRegistered
}

// outputOf computes the effective quotas: the install's own until they end, otherwise the tier's.
func (s *Extensions) outputOf(in *inspection.InstallUsage, now ext.Moment) installOutput {
	q := in.Registered.Quota(s.opened.QuotaOf(in.Registered.Tier), now)
	o := installOutput{
		Tenant: string(in.Tenant), Install: string(in.Install), State: stateOf(&in.Registered), Tier: in.Registered.Tier,
		Bytes: amount{q.Bytes, in.Bytes}, Keys: keyAmount{q.Keys, in.Keys}, Namespaces: amount{q.Namespaces, in.Namespaces},
		Stored: service.Bytes(in.Bytes), MaxBytes: q.Bytes, Share: fmt.Sprintf("%.1f%%", 100*float64(in.Bytes)/float64(q.Bytes)),
		Records: in.Keys, Used: in.Namespaces, MaxNamespaces: q.Namespaces,
	}
	if at := in.Registered.RevokedAt; at != 0 {
		revoked := at.Time()
		o.RevokedAt = &revoked
	}
	return o
}

// installsInput selects installs. A position is the tenant and the install, separated by a space.
type installsInput struct {
	Tenant   string `flag:"tenant" value:"UUID" doc:"tenant UUID (default: all)"`
	Holdings bool   `flag:"holdings" doc:"count schemas, changes, stored responses and revoked tokens" local:""`
	operate.Page[string]
}

// span returns the installs to read, after the position.
func (in installsInput) span() (span inspection.Span, err error) {
	if span, err = spanOf(in.Tenant); err != nil || in.After == "" {
		return span, err
	}
	tenant, install, _ := strings.Cut(in.After, " ")
	if span.After, err = (installInput{tenant, install}).owner(); err != nil {
		err = &operate.InputError{Input: "after", Reason: "expected next from the previous page"}
	}
	return span, err
}

// spanOf returns all installs for "". The error is an *operate.InputError.
func spanOf(tenant string) (inspection.Span, error) {
	if tenant == "" {
		return inspection.Span{All: true}, nil
	}
	o, err := tenantInput{tenant}.owner()
	return inspection.Span{Tenant: o.Tenant}, err
}

func (in installsInput) Check() error {
	_, err := in.span()
	return err
}

// installsFilter is installsInput for the list that can leave out usable installs.
type installsFilter struct {
	installsInput
	Revoked bool `flag:"revoked" doc:"only revoked installs" title:"Only revoked installs"`
}

// installRow is a row with counts that are only read with --holdings, because each install takes several queries.
type installRow struct {
	installOutput
	Schemas *int64 `json:"schemas,omitempty" title:"Schemas" with:"holdings" local:""`
	Changes *int64 `json:"changes,omitempty" title:"Changes" with:"holdings" local:""`
	// Answers are responses that are kept for repeated requests; Tokens are revoked tokens.
	Answers *int64 `json:"answers,omitempty" local:""`
	Tokens  *int64 `json:"tokens,omitempty" local:""`
	Cursor  string `json:"-" cursor:""`

	// note tells once, below the list, how to delete revoked installs.
	note string
}

// Note is printed by the command, each text once.
func (r installRow) Note() string { return r.note }

// listInstalls also lists installs that only have a registration or a record of their deletion; listUsage does not.
func (s *Extensions) listInstalls(ctx context.Context, in installsFilter) ([]installRow, error) {
	all, err := s.rows(ctx, in.installsInput, func(span inspection.Span) ([]inspection.InstallUsage, error) {
		return s.inspection.PageInstalls(ctx, span, in.Revoked, in.Limit)
	})
	for i := range all {
		if in.Revoked && all[i].Stored > 0 {
			all[i].note = "\nRevoked installs keep their data. Delete one with:\n\n  holdfast ext installs delete --tenant TENANT --install INSTALL"
		}
	}
	return all, err
}

// rows converts a page of installs. page reads it; in adds the counts.
func (s *Extensions) rows(ctx context.Context, in installsInput, page func(inspection.Span) ([]inspection.InstallUsage, error)) (all []installRow, err error) {
	span, err := in.span()
	if err != nil {
		return nil, err
	}
	installs, err := page(span)
	now := s.now()
	for i := range installs {
		install := &installs[i]
		row := installRow{installOutput: s.outputOf(install, now), Cursor: string(install.Tenant) + " " + string(install.Install)}
		if in.Holdings {
			holds, err := s.opened.Holdings(ctx, install.Owner)
			if err != nil {
				return nil, err
			}
			row.Schemas, row.Changes, row.Answers, row.Tokens = &holds.Schemas, &holds.Changes, &holds.Answers, &holds.Tokens
		}
		all = append(all, row)
	}
	return all, err
}

// words are shown separated by spaces.
type words []string

func (w words) String() string { return strings.Join(w, " ") }

// overrides are an install's own quotas until Until; 0 means that the tier's quota applies.
type overrides struct {
	Bytes      int64     `json:"bytes,omitempty"`
	Namespaces int64     `json:"namespaces,omitempty"`
	Keys       int64     `json:"keys,omitempty"`
	Until      time.Time `json:"until"`
}

// namespaceOutput is a namespace with its use. max is the quota for the bar.
type namespaceOutput struct {
	Namespace string        `json:"namespace" title:"Namespace" subject:"namespace"`
	Keys      int64         `json:"keys" title:"Keys" of:"max"`
	Bytes     service.Bytes `json:"bytes" title:"Bytes"`
	max       int64
}

// installDetail is an install with its namespaces and its registration. Zero times mean that nothing happened.
type installDetail struct {
	installOutput
	Quota       quotaText         `json:"-" title:"Quota"`
	ByNamespace []namespaceOutput `json:"byNamespace" table:"Namespaces" empty:"There are no records."`
	Overrides   *overrides        `json:"overrides,omitempty" doc:"overrides the tier's quotas"`
	Until       time.Time         `json:"-" title:"Own quota ends"`
	Access      words             `json:"access,omitzero" title:"Access" zero:"-" doc:"maximum token access, e.g. settings=rw; missing: as each token says"`
	Created     time.Time         `json:"createdAt,omitzero" title:"Registered"`
	Updated     time.Time         `json:"updatedAt,omitzero" title:"Updated"`
	Revoked     time.Time         `json:"-" title:"Revoked"`
	Deleting    time.Time         `json:"deletingAt,omitzero" title:"Deletion began"`
	Deleted     time.Time         `json:"deletedAt,omitzero" title:"Deleted"`
}

// quotaText shows a quota in words.
type quotaText ext.Quota

// String returns exact bytes.
func (q quotaText) String() string { return service.Count(q.Bytes, "byte") + q.others() }

// Rounded is for pages and terminals.
func (q quotaText) Rounded() string { return service.FormatBytes(q.Bytes) + q.others() }

// others continues with the quotas that are not bytes.
func (q quotaText) others() string {
	return fmt.Sprintf(", %s, %s in each", service.Count(q.Namespaces, "namespace"), service.Count(q.Keys, "key"))
}

// Notice is "", so that the install is shown after a change.
func (installDetail) Notice() string { return "" }

// Note warns that tokens are refused.
func (d installDetail) Note() string {
	if d.State == stateRevoked {
		return "Access was revoked at " + service.TimeCell(d.Revoked).Text + ". The data is kept."
	}
	return deletionNote("install", d.Deleting, d.Deleted)
}

// showInstall shows an install that is registered or holds data, and otherwise returns ext.ErrNoInstall.
func (s *Extensions) showInstall(ctx context.Context, in installInput) (d installDetail, err error) {
	o, err := in.owner()
	if err != nil {
		return d, err
	}
	registered, err := s.opened.ShowInstall(ctx, o)
	if errors.Is(err, ext.ErrNoInstall) { // its data may still exist
		holds, failed := s.opened.Holdings(ctx, o)
		if failed != nil || holds == (ext.Holdings{}) {
			return d, cmp.Or(failed, err)
		}
		err = nil
	}
	if err != nil {
		return d, err
	}
	return s.detail(ctx, o, &registered)
}

// detail reads an install's usage. in is its registration, which is zero for an install without one.
func (s *Extensions) detail(ctx context.Context, o ext.Owner, in *ext.Install) (d installDetail, err error) {
	now := s.now()
	u, err := s.opened.InstallUsage(ctx, o, now)
	if err != nil {
		return d, err
	}
	q := in.Quota(s.opened.QuotaOf(in.Tier), now)
	d = installDetail{
		installOutput: s.outputOf(&inspection.InstallUsage{Owner: o, Counters: u.Counters, Registered: *in}, now),
		Quota:         quotaText(q),
		ByNamespace:   []namespaceOutput{}, Until: service.TimeOf(in.Overrides.Until),
		Created: service.TimeOf(in.CreatedAt), Updated: service.TimeOf(in.UpdatedAt), Revoked: service.TimeOf(in.RevokedAt),
		Deleting: service.TimeOf(in.Deletion.StartedAt), Deleted: service.TimeOf(in.Deletion.FinishedAt),
	}
	for _, n := range u.Namespaces {
		d.ByNamespace = append(d.ByNamespace, namespaceOutput{string(n.Namespace), n.Keys, service.Bytes(n.Bytes), q.Keys})
	}
	if own := &in.Overrides; own.Until != 0 {
		d.Overrides = &overrides{own.Bytes, own.Namespaces, own.Keys, own.Until.Time()}
	}
	if in.Namespaces != nil {
		d.Access = words{}
	}
	for _, ns := range slices.Sorted(maps.Keys(in.Namespaces)) {
		access, _ := in.Namespaces[ns].MarshalText()
		d.Access = append(d.Access, fmt.Sprintf("%s=%s", ns, access))
	}
	return d, nil
}

// setInput is a whole registration: a value that is not given is removed. 0 means the tier's quota.
type setInput struct {
	installInput
	Tier       string   `flag:"tier" value:"TIER" names:"tier" doc:"TIER from extstorage.tiers"`
	Bytes      int64    `flag:"bytes" value:"N" doc:"quota: N bytes (default: the tier's quota)" least:"1"`
	Namespaces int64    `flag:"namespaces" value:"N" doc:"quota: N namespaces (default: the tier's quota)" least:"1"`
	Keys       int64    `flag:"keys" value:"N" doc:"quota: N keys per namespace (default: the tier's quota)" least:"1"`
	Until      string   `flag:"until" value:"TIME" doc:"TIME when these quotas end, e.g. 2026-11-21T15:04:05Z (default: in 14 days)"`
	Access     []string `flag:"namespace" value:"NS=ACCESS" doc:"maximum token access to a namespace, as NS=ACCESS, e.g. log=r; repeatable"`
	Restore    bool     `flag:"restore" doc:"restore access to a revoked or deleted install"`
}

// registration returns nil namespaces if no access is given: tokens are then limited only by themselves.
func (in setInput) registration() (r ext.Registration, err error) {
	r.Tier, r.Overrides.Quota = in.Tier, ext.Quota{Bytes: in.Bytes, Namespaces: in.Namespaces, Keys: in.Keys}
	if r.Overrides.Until, err = parseTime("until", in.Until); err != nil || len(in.Access) == 0 {
		return r, err
	}
	r.Namespaces, err = parseWords(in.Access, true)
	return r, err
}

// Check parses the registration before anything is read.
func (in setInput) Check() error {
	_, err := in.registration()
	return err
}

// setInstall registers an install, or replaces its registration. A deleted install needs Restore, so that its ID is not
// reused by mistake.
func (s *Extensions) setInstall(ctx context.Context, in setInput) (d installDetail, err error) {
	o, err := in.owner()
	if err != nil {
		return d, err
	}
	r, err := in.registration()
	if err != nil {
		return d, err
	}
	registered, _, err := s.opened.RegisterInstall(ctx, o, r, in.Restore)
	switch {
	case errors.Is(err, ext.ErrInstallDeleted) && in.Restore:
		return d, errUnfinished
	case errors.Is(err, ext.ErrInstallDeleted):
		return d, errcode.New(errcode.Conflict, "the install was deleted: --restore allows its ID again, without its old data")
	case err != nil:
		return d, err
	}
	return s.detail(ctx, o, &registered)
}

// quotaInput changes only the values that are given; 0 means unchanged.
type quotaInput struct {
	installInput
	Tier       string `flag:"tier" value:"TIER" names:"tier" doc:"TIER from extstorage.tiers"`
	Bytes      int64  `flag:"bytes" value:"N" doc:"quota: N bytes" least:"1"`
	Namespaces int64  `flag:"namespaces" value:"N" doc:"quota: N namespaces" least:"1"`
	Keys       int64  `flag:"keys" value:"N" doc:"quota: N keys per namespace" least:"1"`
	Until      string `flag:"until" value:"TIME" doc:"TIME when these quotas end, e.g. 2026-11-21T15:04:05Z (default: unchanged, or in 14 days)"`
	Reset      bool   `flag:"reset" doc:"first reset to the default tier and its quotas"`
}

// change refuses an input that changes nothing.
func (in quotaInput) change() (c ext.QuotaChange, err error) {
	c = ext.QuotaChange{Tier: in.Tier, Overrides: ext.Overrides{Quota: ext.Quota{Bytes: in.Bytes, Namespaces: in.Namespaces, Keys: in.Keys}}, Reset: in.Reset}
	if c.Overrides.Until, err = parseTime("until", in.Until); err == nil && c == (ext.QuotaChange{}) {
		err = &operate.InputError{Input: "tier", Reason: "give a tier, a quota, its end time, or reset"}
	}
	return c, err
}

// Check parses the change before anything is read.
func (in quotaInput) Check() error {
	_, err := in.change()
	return err
}

// changeQuota leaves access and restrictions as they are. The install must be registered.
func (s *Extensions) changeQuota(ctx context.Context, in quotaInput) (d quotaDetail, err error) {
	o, err := in.owner()
	if err != nil {
		return d, err
	}
	c, err := in.change()
	if err != nil {
		return d, err
	}
	changed, err := s.opened.ChangeQuota(ctx, o, c)
	switch {
	case errors.Is(err, ext.ErrNoInstall):
		return d, errcode.New(errcode.NotFound, "the install is not registered: register it with ext installs set")
	case errors.Is(err, ext.ErrInstallDeleted):
		return d, errcode.New(errcode.Conflict, "the install was deleted")
	case err != nil:
		return d, err
	}
	d.installDetail, err = s.detail(ctx, o, &changed)
	return d, err
}

// quotaDetail is the changed install, with a notice.
type quotaDetail struct{ installDetail }

func (d quotaDetail) Notice() string { return "the quota is " + d.Quota.String() }

// errUnfinished is returned when an install cannot be restored yet.
var errUnfinished = errcode.New(errcode.Conflict, "deleting the install or its tenant has not finished, or the tenant was deleted: finish it with ext installs delete or ext tenants delete; restore a tenant with ext tenants restore")

// installChange is the revoked or restored install. did is the notice.
type installChange struct {
	Tenant  string `json:"tenant" subject:"tenant"`
	Install string `json:"install" subject:"install"`
	did     string
}

func (c installChange) Notice() string { return c.did }

// revokeInstall also succeeds for an install that is not registered. Every server refuses its tokens within a second.
func (s *Extensions) revokeInstall(ctx context.Context, in installInput) (c installChange, err error) {
	o, err := in.owner()
	if err != nil {
		return c, err
	}
	return installChange{in.Tenant, in.Install, "access to the install is revoked"}, s.opened.RevokeInstall(ctx, o)
}

// restoreInstall accepts the install's tokens again; after a deletion, only tokens created from now on.
func (s *Extensions) restoreInstall(ctx context.Context, in installInput) (c installChange, err error) {
	o, err := in.owner()
	if err != nil {
		return c, err
	}
	if err = s.opened.RestoreInstall(ctx, o); errors.Is(err, ext.ErrInstallDeleted) {
		err = errUnfinished
	}
	return installChange{in.Tenant, in.Install, "the install can be used again"}, err
}
