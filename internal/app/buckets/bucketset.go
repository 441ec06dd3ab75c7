package buckets

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/operate"
)

// bucketInput names an account's bucket.
type bucketInput struct {
	accountInput
	Bucket string `subject:"bucket" doc:"bucket name"`
}

// bucketChange reports a change to a bucket.
type bucketChange struct {
	Account string `json:"account" subject:"account" example:"main"`
	Bucket  string `json:"bucket" subject:"bucket" example:"photos"`

	notice string
}

func (c bucketChange) Notice() string { return c.notice }

// bucketOf reads the account and the bucket that an input names. The error names the part that does not exist.
func (s *Buckets) bucketOf(ctx context.Context, in bucketInput) (a buckets.Account, b buckets.Bucket, err error) {
	if a, err = s.account(ctx, in.Account); err != nil {
		return a, b, err
	}
	b, err = s.opened.Bucket(ctx, a.ID, in.Bucket)
	return a, b, about(in.Bucket, err)
}

// createBucket creates a private bucket without versioning.
func (s *Buckets) createBucket(ctx context.Context, in bucketInput) (bucketChange, error) {
	a, err := s.account(ctx, in.Account)
	if err == nil {
		_, err = s.opened.CreateBucket(ctx, a.ID, in.Bucket)
	}
	return bucketChange{in.Account, in.Bucket, fmt.Sprintf("created bucket %s of account %s", in.Bucket, in.Account)}, err
}

// deletedBucket also lists the backups that still hold the bucket.
type deletedBucket struct {
	bucketChange
	service.Deleted
}

// deleteBucket deletes a bucket without objects and versions, and aborts its incomplete uploads.
func (s *Buckets) deleteBucket(ctx context.Context, in bucketInput) (d deletedBucket, err error) {
	a, b, err := s.bucketOf(ctx, in)
	if err == nil {
		err = s.nameLocked(ctx, &b, s.opened.DeleteBucket(ctx, a.ID, b.BucketRef))
	}
	if err != nil {
		return d, err
	}
	d.bucketChange = bucketChange{in.Account, in.Bucket, fmt.Sprintf("deleted bucket %s of account %s", in.Bucket, in.Account)}
	d.Deleted, err = s.deps.Deleted(b.Created.Time(), Name)
	return d, err
}

// Names as in S3's canned ACLs.
const (
	accessPrivate = "private"
	accessPublic  = "public-read"
)

// accessInput is a canned ACL.
type accessInput struct {
	bucketInput
	Access string `flag:"access" doc:"private or public-read" enum:"private,public-read"`
}

// Check refuses a missing value: there is no default.
func (in accessInput) Check() error {
	if in.Access != accessPrivate && in.Access != accessPublic {
		return &operate.InputError{Input: "access", Reason: "must be private or public-read"}
	}
	return nil
}

// setAccess refuses public access that the bucket's public access block forbids. A bucket that becomes public claims
// its plain name; the notice says if another account has it.
func (s *Buckets) setAccess(ctx context.Context, in accessInput) (bucketChange, error) {
	a, b, err := s.bucketOf(ctx, in.bucketInput)
	isPublic := in.Access == accessPublic
	if err == nil && isPublic {
		err = about(in.Bucket, b.Settings.CheckPublicRead())
	}
	if err == nil {
		err = s.opened.SetBucket(ctx, a.ID, b.BucketRef, buckets.SettingsChange{PublicRead: &isPublic})
	}
	notice := fmt.Sprintf("bucket %s is %s", in.Bucket, in.Access)
	if err == nil {
		notice, err = s.sharedAs(ctx, in.bucketInput, notice)
	}
	return bucketChange{in.Account, in.Bucket, notice}, err
}

// versioningWords are the words for the states, by buckets.Versioning.
var versioningWords = []string{buckets.VersioningOff: "off", buckets.VersioningEnabled: "enabled", buckets.VersioningSuspended: "suspended"}

// versioningInput cannot be "off", because versioning can only be suspended.
type versioningInput struct {
	bucketInput
	Versioning string `flag:"versioning" doc:"enabled or suspended" enum:"enabled,suspended"`
}

// Check refuses a missing value and "off".
func (in versioningInput) Check() error {
	if slices.Index(versioningWords, in.Versioning) <= 0 {
		return &operate.InputError{Input: "versioning", Reason: "must be enabled or suspended"}
	}
	return nil
}

// setVersioning takes effect with the next write.
func (s *Buckets) setVersioning(ctx context.Context, in versioningInput) (bucketChange, error) {
	a, b, err := s.bucketOf(ctx, in.bucketInput)
	if err == nil {
		err = s.opened.SetVersioning(ctx, a.ID, b.BucketRef, buckets.Versioning(slices.Index(versioningWords, in.Versioning)))
	}
	return bucketChange{in.Account, in.Bucket, fmt.Sprintf("versioning for bucket %s is %s", in.Bucket, in.Versioning)}, err
}

// corsInput is a single rule. Buckets with several rules are set by an S3 client.
type corsInput struct {
	bucketInput
	Origins string        `flag:"origins" doc:"page origins, e.g. https://app.example.org, or *; none removes all rules"`
	Methods string        `flag:"methods" doc:"GET, HEAD, PUT, POST, DELETE" default:"GET,HEAD"`
	Headers string        `flag:"headers" doc:"request headers that pages may send, or *"`
	Expose  string        `flag:"expose" doc:"response headers that pages may read" default:"ETag"`
	MaxAge  time.Duration `flag:"max-age" doc:"how long browsers may remember the rule" default:"1h"`
}

// Check makes buckets.CORSRule's errors refer to the inputs.
func (in corsInput) Check() error {
	invalid := func(input, reason string) error { return &operate.InputError{Input: input, Reason: reason} }
	rule := in.rule()
	if in.Origins == noOrigins {
		return nil
	}
	for _, origin := range rule.AllowedOrigins {
		if origin != "*" && !strings.Contains(origin, "://") {
			return invalid("origins", "expected origins, e.g. https://app.example.org")
		}
	}
	for _, header := range rule.AllowedHeaders {
		if !buckets.IsHeaderName(header) { // may contain a *
			return invalid("headers", "expected header names")
		}
	}
	if in.MaxAge < 0 || in.MaxAge > 24*time.Hour {
		return invalid("max-age", "must be from 0s to 24h")
	}
	if problem := rule.Check(); problem != nil {
		return invalid(corsInputs[problem.Member], problem.Reason)
	}
	return nil
}

// noOrigins is the word that removes all rules.
const noOrigins = "none"

// corsInputs are the inputs by the XML member that a CORS error names.
var corsInputs = map[string]string{"AllowedOrigin": "origins", "AllowedMethod": "methods", "AllowedHeader": "headers", "ExposeHeader": "expose", "MaxAgeSeconds": "max-age"}

// rule returns the rule, which is empty if all rules are removed.
func (in corsInput) rule() buckets.CORSRule {
	list := func(text string) (all []string) {
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				all = append(all, item)
			}
		}
		return all
	}
	if in.Origins == noOrigins {
		return buckets.CORSRule{}
	}
	return buckets.CORSRule{
		AllowedOrigins: list(in.Origins), AllowedMethods: list(in.Methods), AllowedHeaders: list(in.Headers), ExposeHeaders: list(in.Expose),
		MaxAgeSeconds: int(in.MaxAge.Seconds()),
	}
}

// setCORS replaces all rules, also those that an S3 client set.
func (s *Buckets) setCORS(ctx context.Context, in corsInput) (bucketChange, error) {
	a, b, err := s.bucketOf(ctx, in.bucketInput)
	rules, notice := []buckets.CORSRule{}, fmt.Sprintf("bucket %s has no CORS rule", in.Bucket)
	if rule := in.rule(); len(rule.AllowedOrigins) > 0 {
		rules, notice = append(rules, rule), "set the CORS rule for bucket "+in.Bucket
	}
	if err == nil {
		err = s.opened.SetBucket(ctx, a.ID, b.BucketRef, buckets.SettingsChange{CORS: &rules})
	}
	return bucketChange{in.Account, in.Bucket, notice}, err
}

// bucketSettings is a bucket with all settings that this page shows.
type bucketSettings struct {
	Account string `json:"account" title:"Account" subject:"account" example:"main"`
	bucketOutput
	Versioning string `json:"versioning" title:"Versioning" enum:"off,enabled,suspended"`
	ObjectLock string `json:"objectLock" title:"Object lock" example:"enabled, new objects governance for 30 days"`
	SharedAs   string `json:"sharedAs,omitempty" title:"Name for others" zero:"-" example:"photos" doc:"plain name, or ACCOUNT:BUCKET if the bucket does not claim its plain name; missing: not public or shared"`
	CORS       string `json:"cors,omitempty" text:"CORS rules" doc:"as JSON; missing: none"`
	LeftOut    string `json:"leftOut,omitempty" text:"Left out by the last import" doc:"a line for each setting; missing: nothing"`
}

// Offers reports whether there is something to accept.
func (o bucketSettings) Offers(verb string) bool { return verb != "accept-import" || o.LeftOut != "" }

// showBucket shows the settings as stored, also if they would be refused today.
func (s *Buckets) showBucket(ctx context.Context, in bucketInput) (o bucketSettings, err error) {
	a, b, err := s.bucketOf(ctx, in)
	if err != nil {
		return o, err
	}
	u, err := s.usageOf(ctx, a, b.Name)
	if err != nil {
		return o, err
	}
	o = bucketSettings{Account: a.Name, bucketOutput: outputOfBucket(&b, u), Versioning: versioningWords[b.Versioning], ObjectLock: lockText(b.Lock)}
	for _, n := range b.OpenImportNotes() {
		o.LeftOut += n.Setting.Words() + ": " + n.Reason + "\n"
	}
	o.SharedAs, err = s.nameForOthers(ctx, a, &b)
	if err == nil && len(b.Settings.CORS) > 0 {
		var text []byte
		text, err = json.MarshalIndent(b.Settings.CORS, "", "  ")
		o.CORS = string(text)
	}
	return o, err
}
