package buckets

import (
	"context"
	"errors"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/operate"
)

// accountOperations declares the accounts. Accounts in the configuration are created at the start, and cannot be
// deleted here.
func (s *Buckets) accountOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "accounts", Doc: "List accounts", Title: "Accounts", Empty: "There are no accounts.",
			Group: "Manage accounts, which own buckets",
		}, on(s, s.listAccounts)),
		operate.NewRead(operate.About{Access: operate.ForViewers, Path: "accounts/show", Doc: "Show an account's usage and quotas", Title: "Account"}, on(s, s.showAccount)),
		operate.NewChange(operate.About{
			Path: "accounts/create", Doc: "Create an account with an access key", NewRow: true,
			Title: "Create an account", Text: "It gets an access key. The command holdfast buckets keys list ACCOUNT --secrets shows it again.", Button: "Create account",
		}, on(s, s.addAccount)),
		operate.NewChange(operate.About{
			Path: "accounts/delete", Doc: "Delete an account without buckets, and its access keys", Danger: true, Retypes: true,
			Title: "Delete the account", Text: "Only an account without buckets can be deleted. Its access keys are deleted, too.", Button: "Delete account",
		}, on(s, s.dropAccount)),
	}
}

// accountInput names an account by its name, not its ID.
type accountInput struct {
	Account string `subject:"account" doc:"account name"`
}

// accountOutput is an account with its total use, which includes its buckets' objects, versions and incomplete uploads.
type accountOutput struct {
	Account string            `json:"account" title:"Account" subject:"account" cursor:"" example:"main"`
	ID      buckets.AccountID `json:"id" title:"ID" example:"5e0f8ab9-6a31-44d6-8e4b-6f0b1a5d2c10"`
	Created time.Time         `json:"created" title:"Created"`
	usageOutput
}

// listAccounts orders by name, and reads a page's totals with one query.
func (s *Buckets) listAccounts(ctx context.Context, in operate.Page[string]) (all []accountOutput, err error) {
	page, err := s.opened.ListAccounts(ctx, in.After, in.Limit)
	if err != nil {
		return nil, err
	}
	ids := make([]buckets.AccountID, len(page))
	for i := range page {
		ids[i] = page[i].ID
	}
	used, err := s.opened.Totals(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i := range page {
		all = append(all, outputOfAccount(&page[i], outputOfUsage(used[i].Total, used[i].Quota)))
	}
	return all, nil
}

// outputOfAccount joins an account and its use.
func outputOfAccount(a *buckets.Account, u usageOutput) accountOutput {
	return accountOutput{a.Name, a.ID, a.Created.Time(), u}
}

// showAccount returns errcode.NotFound for an unknown name.
func (s *Buckets) showAccount(ctx context.Context, in accountInput) (o accountOutput, err error) {
	a, err := s.account(ctx, in.Account)
	if err != nil {
		return o, err
	}
	used, err := s.usageOf(ctx, a, "")
	return outputOfAccount(&a, outputOfUsage(used.Usage, used.Quota)), err
}

// madeKey is a new access key with its secret, and the endpoint to use it at. An endpoint for this machine only has a
// note.
type madeKey struct {
	Account   string `json:"account" title:"Account" subject:"account" example:"main"`
	Endpoint  string `json:"endpoint" title:"Endpoint" example:"https://s3.example.org"`
	AccessKey string `json:"accessKey" title:"Access key" subject:"key" example:"HFABCDEFGHIJKLMNOPQR"`
	SecretKey string `json:"secretKey" title:"Secret key" secret:"The secret key is not shown again in the console. The command holdfast buckets keys list --secrets shows it."`
	note      string
	region    string
	terms     buckets.KeyTerms
}

// Notice is "", so that the key is shown.
func (madeKey) Notice() string { return "" }

// Note warns about the endpoint; see endpointNote.
func (k madeKey) Note() string { return k.note }

// made adds the endpoint to a key.
func (s *Buckets) made(account string, key newKey) madeKey {
	return madeKey{Account: account, Endpoint: s.publicEndpoint(), AccessKey: key.id, SecretKey: key.secret, note: s.endpointNote(), region: s.cfg.Region}
}

// addAccount creates the account and its key in one transaction.
func (s *Buckets) addAccount(ctx context.Context, in accountInput) (madeKey, error) {
	if err := errors.Join(buckets.CheckAccountName(in.Account), s.needKeySecret()); err != nil {
		return madeKey{}, about(in.Account, err)
	}
	key, err := s.createAccount(ctx, in.Account)
	return s.made(in.Account, key), about(in.Account, err)
}

// accountChange reports a change. did is a verb, e.g. "deleted".
type accountChange struct {
	Account string `json:"account" subject:"account" example:"main"`
	did     string
}

func (c accountChange) Notice() string { return c.did + " account " + c.Account }

// dropAccount refuses a configured account, because the next start would create it again. If locked versions are the
// reason why buckets remain, the error names one.
func (s *Buckets) dropAccount(ctx context.Context, in accountInput) (c accountChange, err error) {
	if _, ok := s.cfg.Accounts[in.Account]; ok {
		return c, about(in.Account, errAccountConfigured)
	}
	a, err := s.account(ctx, in.Account)
	if err != nil {
		return c, err
	}
	return accountChange{in.Account, "deleted"}, about(in.Account, s.nameLockedOf(ctx, a.ID, s.opened.DeleteAccount(ctx, a.ID)))
}
