package buckets

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/operate"
)

// nameOperations declares the claims to plain names. A claim is made by sharing a bucket, and by nothing else.
func (s *Buckets) nameOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "names", Doc: "List the plain bucket names that accounts have claimed", Title: "Plain names", Empty: "No bucket is public or shared.",
			Group: "Show and free plain bucket names",
			Text: "A plain name in the request of another account, or without a key, means the first bucket that was made public or shared. " +
				"Other buckets with this name are reached as ACCOUNT:BUCKET.",
		}, on(s, s.listNames)),
		operate.NewChange(operate.About{
			Path: "names/free", Doc: "Free a plain bucket name, so that the next bucket that is made public or shared claims it", Button: "Free", Danger: true,
			Ask: "Requests for this name without an account find no bucket then. A public bucket keeps its access, and is reached as ACCOUNT:BUCKET.",
		}, on(s, s.freeName)),
	}
}

// States of a plain name.
const (
	nameClaimed = "claimed" // the account's bucket answers
	nameResting = "resting" // nobody's bucket answers, and only the account can claim it
	nameFree    = "free"    // everybody can claim it; the row is removed by a sweep
)

// nameOutput is a claim. See buckets.NameClaim.
type nameOutput struct {
	Name    string    `json:"name" title:"Name" subject:"name" cursor:"" example:"photos"`
	Account string    `json:"account,omitempty" title:"Account" zero:"-" example:"main" doc:"owner of the bucket that has the name, or had it last; missing: account deleted"`
	State   string    `json:"state" title:"State" enum:"claimed,resting,free" doc:"resting: nobody but the account can claim it"`
	Since   time.Time `json:"since" title:"Since" doc:"when the bucket claimed the name"`
	Until   time.Time `json:"restsUntil,omitzero" title:"Rests until" zero:"-" doc:"when others can claim the name; missing: a bucket has it"`
}

// listNames orders by name.
func (s *Buckets) listNames(ctx context.Context, in operate.Page[string]) (all []nameOutput, err error) {
	claims, err := s.opened.NameClaims(ctx, in.After, in.Limit)
	accounts := map[buckets.AccountID]string{}
	for i := range claims {
		o, err := s.outputOfName(ctx, &claims[i], accounts)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, err
}

// outputOfName remembers the names of accounts in accounts.
func (s *Buckets) outputOfName(ctx context.Context, c *buckets.NameClaim, accounts map[buckets.AccountID]string) (o nameOutput, err error) {
	name, known := accounts[c.Owner]
	if !known {
		a, err := s.opened.AccountByID(ctx, c.Owner)
		if err != nil && !errors.Is(err, buckets.ErrNoAccount) {
			return o, err
		}
		name, accounts[c.Owner] = a.Name, a.Name
	}
	o = nameOutput{Name: c.Name, Account: name, State: nameClaimed, Since: c.Claimed.Time()}
	if c.Freed == 0 {
		return o, nil
	}
	if o.State, o.Until = nameResting, c.RestsUntil().Time(); c.RestsUntil() <= s.opened.Now() {
		o.State = nameFree
	}
	return o, nil
}

// nameInput names a bucket without its account.
type nameInput struct {
	Name string `subject:"name" doc:"bucket name"`
}

// freedName is the claim before it was freed.
type freedName struct {
	nameOutput
}

func (f freedName) Notice() string {
	if f.State == nameClaimed && f.Account != "" {
		return fmt.Sprintf("freed the name %s: bucket %s of account %s is reached as %s:%s", f.Name, f.Name, f.Account, f.Account, f.Name)
	}
	return "freed the name " + f.Name
}

// freeName ends a claim or its rest at once, so that another account can claim the name.
func (s *Buckets) freeName(ctx context.Context, in nameInput) (f freedName, err error) {
	c, err := s.opened.FreeName(ctx, in.Name)
	if err != nil {
		return f, about(in.Name, err)
	}
	f.nameOutput, err = s.outputOfName(ctx, &c, map[buckets.AccountID]string{})
	return f, err
}

// nameForOthers returns how other accounts and links name a bucket, or "" if the bucket is not shared.
func (s *Buckets) nameForOthers(ctx context.Context, a buckets.Account, b *buckets.Bucket) (string, error) {
	if !b.Settings.IsShared() {
		return "", nil
	}
	holder, err := s.opened.NameHolder(ctx, b.Name)
	if holder == a.ID {
		return b.Name, err
	}
	return a.Name + ":" + b.Name, err
}

// sharedAs completes the notice of a change that may have shared a bucket.
func (s *Buckets) sharedAs(ctx context.Context, in bucketInput, notice string) (string, error) {
	a, b, err := s.bucketOf(ctx, in)
	if err != nil {
		return notice, err
	}
	name, err := s.nameForOthers(ctx, a, &b)
	if err == nil && name != "" && name != b.Name {
		notice += fmt.Sprintf("; others reach it as %s, because its plain name belongs to another account or rests", name)
	}
	return notice, err
}

// mostNames limits how many claims a check counts, and how many hidden buckets it names.
const mostNames, mostHidden = 1000, 10

// inspectNames shows which buckets share a plain name, and which of them answers it. None of this is wrong: the owners
// of buckets decide it, and must not cause warnings to the operator.
func (s *Buckets) inspectNames(ctx context.Context) (findings []service.Finding, err error) {
	const what = "buckets names"
	claims, err := s.opened.NameClaims(ctx, "", mostNames)
	if err != nil {
		return nil, err
	}
	resting := int64(0)
	for i := range claims {
		if claims[i].Freed != 0 {
			resting++
		}
	}
	says := service.Count(int64(len(claims))-resting, "plain name") + " claimed by public and shared buckets, " + fmt.Sprintf("%d resting", resting)
	if len(claims) == mostNames {
		says = "of the first 1000 names, " + says
	}
	findings = append(findings, service.Finding{State: service.OK, What: what, Says: says})
	hidden, err := s.opened.HiddenBuckets(ctx, mostHidden)
	for i := range hidden {
		says, err := s.hidden(ctx, &hidden[i])
		if err != nil {
			return nil, err
		}
		findings = append(findings, service.Finding{State: service.OK, What: what, Says: says})
	}
	return findings, err
}

// hidden explains why a public or shared bucket does not answer to its plain name.
func (s *Buckets) hidden(ctx context.Context, b *buckets.Bucket) (string, error) {
	accounts := map[buckets.AccountID]string{}
	o, err := s.outputOfName(ctx, &buckets.NameClaim{Owner: b.Owner}, accounts)
	if err != nil {
		return "", err
	}
	says := fmt.Sprintf("bucket %s of account %s is reached as %s:%s only", b.Name, o.Account, o.Account, b.Name)
	c, err := s.opened.NameClaim(ctx, b.Name)
	if errors.Is(err, buckets.ErrNoName) {
		return says, nil
	}
	if err != nil {
		return "", err
	}
	holder, err := s.outputOfName(ctx, &c, accounts)
	if holder.State == nameClaimed {
		return says + ": the plain name means the bucket of account " + holder.Account, err
	}
	return says + ": the plain name rests until " + holder.Until.UTC().Format(time.RFC3339), err
}
