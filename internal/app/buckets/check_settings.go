package buckets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/policy"
	"holdfast/internal/operate"
)

const (
	settingsWhat = "buckets settings"

	// mostSettings and settingsTime limit how many buckets a check reads, in pages. The time is a part of the 10 s that
	// package check gives a service.
	mostSettings = 20_000
	settingsTime = 3 * time.Second
)

// bucketsCommand begins the commands of buckets.
const bucketsCommand = "holdfast buckets buckets " //nolint:dupword // the noun is the name of the service

// settingFixes says how to set each kind again. A %s is for the account and the bucket.
var settingFixes = map[buckets.Setting]string{
	buckets.SettingPublicRead:    bucketsCommand + "set-access %s",
	buckets.SettingCORS:          bucketsCommand + "set-cors %s, or an S3 client",
	buckets.SettingTags:          "an S3 client (put-bucket-tagging)",
	buckets.SettingLifecycle:     "holdfast buckets lifecycle set %s, or an S3 client",
	buckets.SettingPolicy:        "holdfast buckets policy set %s",
	buckets.SettingNotifications: "holdfast buckets notifications set %s",
	buckets.SettingAccessBlock:   "holdfast buckets policy block-public %s",
	buckets.SettingOwnership:     "an S3 client (put-bucket-ownership-controls)",
	buckets.SettingVersioning:    bucketsCommand + "set-versioning %s",
	buckets.SettingLock:          bucketsCommand + "set-lock %s",
}

// settingFix returns how to set a kind of setting.
func settingFix(k buckets.Setting, account, bucket string) string {
	fix := settingFixes[k]
	if strings.Contains(fix, "%s") {
		fix = fmt.Sprintf(fix, account+" "+bucket)
	}
	return fix
}

// settingsCheck collects findings about settings.
type settingsCheck struct {
	*Buckets
	rules    buckets.SettingRules
	accounts knownAccounts

	examined int64
	found    []service.Finding
	more     int64 // findings that are not shown
}

// inspectSettings applies the rules for new settings to the stored settings of each bucket, because a setting can come
// from an import or from an older release, and shows what the last import left out. An account or a destination that a
// setting names may also have been removed since.
func (s *Buckets) inspectSettings(ctx context.Context) ([]service.Finding, error) {
	c := &settingsCheck{Buckets: s, accounts: knownAccounts{s.opened, map[string]knownAccount{}}}
	c.rules = buckets.SettingRules{Destinations: s.opened.Destinations(), CheckPolicy: c.checkPolicy}
	limited, cancel := context.WithTimeout(ctx, settingsTime)
	defer cancel()
	all, err := c.everyBucket(limited)
	if err != nil && (limited.Err() == nil || ctx.Err() != nil) {
		return nil, err
	}
	total := int64(len(c.found)) + c.more
	if c.more > 0 {
		c.found = append(c.found, service.Finding{State: service.Warning, What: settingsWhat, Says: fmt.Sprintf("%d more findings", c.more)})
	}
	f := service.Finding{State: service.OK, What: settingsWhat, Says: service.Count(c.examined, "bucket") + " examined"}
	if total == 0 {
		f.Says += ": all settings are valid"
	}
	if !all {
		f.Says = "the first " + f.Says
	}
	return append(c.found, f), nil
}

// everyBucket reads all accounts' buckets in pages. It returns false if it reached mostSettings.
func (c *settingsCheck) everyBucket(ctx context.Context) (all bool, err error) {
	for after := ""; ; {
		accounts, err := c.opened.ListAccounts(ctx, after, buckets.MaxPage)
		if err != nil {
			return false, err
		}
		for _, a := range accounts {
			after = a.Name
			if all, err := c.bucketsOf(ctx, a); err != nil || !all {
				return false, err
			}
		}
		if len(accounts) < buckets.MaxPage {
			return true, nil
		}
	}
}

// bucketsOf reads an account's buckets in pages. It returns false if it reached mostSettings.
func (c *settingsCheck) bucketsOf(ctx context.Context, a buckets.Account) (all bool, err error) {
	for q := (buckets.BucketQuery{Limit: buckets.MaxPage, Bytes: buckets.SliceBytes}); ; {
		page, more, err := c.opened.Buckets(ctx, a.ID, q)
		if err != nil {
			return false, err
		}
		for i := range page {
			if c.examined == mostSettings {
				return false, nil
			}
			q.After = page[i].Name
			if err := c.bucket(ctx, a.Name, &page[i]); err != nil {
				return false, err
			}
		}
		if !more {
			return true, nil
		}
	}
}

// bucket adds the findings about a bucket.
func (c *settingsCheck) bucket(ctx context.Context, account string, b *buckets.Bucket) error {
	refused, err := b.CheckSettings(ctx, &c.rules)
	if err != nil {
		return err
	}
	c.examined++
	name := account + "/" + b.Name
	for _, p := range refused {
		c.add(fmt.Sprintf("%s: its %s would be refused today: %s", name, p.Setting.Words(), service.Printable(p.Reason)), "correct this with "+settingFix(p.Setting, account, b.Name))
	}
	open := b.OpenImportNotes()
	for len(open) > 0 {
		same := slices.DeleteFunc(slices.Clone(open), func(n buckets.ImportNote) bool { return n.Reason != open[0].Reason })
		open = slices.DeleteFunc(open, func(n buckets.ImportNote) bool { return n.Reason == same[0].Reason })
		c.leftOut(name, account, b.Name, same)
	}
	return nil
}

// leftOut adds a finding about notes with the same reason.
func (c *settingsCheck) leftOut(name, account, bucket string, notes []buckets.ImportNote) {
	accept := bucketsCommand + "accept-import " + account + " " + bucket
	fix := "import again when the reasons are gone, which the import prints; or accept it: " + accept
	var words []string
	for _, n := range notes {
		words = append(words, n.Setting.Words())
		if n.Setting != buckets.SettingObjects {
			fix = "set what the bucket needs with " + settingFix(n.Setting, account, bucket) + "; or accept that it is missing: " + accept
		}
	}
	if len(words) > 1 {
		fix = "set what the bucket needs; or accept that the rest is missing: " + accept
	}
	c.add(fmt.Sprintf("%s: the last import left out its %s: %s", name, strings.Join(words, ", "), service.Printable(notes[0].Reason)), fix)
}

// add shows a finding, or counts it after the first ones.
func (c *settingsCheck) add(says, fix string) {
	if len(c.found) == shown {
		c.more++
		return
	}
	c.found = append(c.found, service.Finding{State: service.Warning, What: settingsWhat, Says: says, Fix: fix})
}

// checkPolicy implements buckets.SettingRules.
func (c *settingsCheck) checkPolicy(ctx context.Context, b *buckets.Bucket) error {
	_, _, err := policy.New(ctx, &c.accounts, b.Owner, b.Name, []byte(b.Settings.Policy.Document))
	return err
}

// knownAccounts reads each account that policies name only once.
type knownAccounts struct {
	of  *buckets.Service
	all map[string]knownAccount // by name or ID
}

type knownAccount struct {
	account buckets.Account
	err     error // nil or ErrNoAccount
}

// Account implements policy.Accounts.
func (k *knownAccounts) Account(ctx context.Context, name string) (buckets.Account, error) {
	return k.find(name, func() (buckets.Account, error) { return k.of.Account(ctx, name) })
}

// AccountByID implements policy.Accounts.
func (k *knownAccounts) AccountByID(ctx context.Context, id buckets.AccountID) (buckets.Account, error) {
	return k.find(string(id), func() (buckets.Account, error) { return k.of.AccountByID(ctx, id) })
}

// find remembers also that an account does not exist, but not other errors.
func (k *knownAccounts) find(key string, read func() (buckets.Account, error)) (buckets.Account, error) {
	if known, ok := k.all[key]; ok {
		return known.account, known.err
	}
	a, err := read()
	if err == nil || errors.Is(err, buckets.ErrNoAccount) {
		k.all[key] = knownAccount{a, err}
	}
	return a, err
}

// acceptImport removes the notes about settings that imports left out.
func (s *Buckets) acceptImport(ctx context.Context, in bucketInput) (bucketChange, error) {
	a, b, err := s.bucketOf(ctx, in)
	if err == nil {
		err = s.opened.SetBucket(ctx, a.ID, b.BucketRef, buckets.SettingsChange{ImportNotes: new([]buckets.ImportNote)})
	}
	return bucketChange{in.Account, in.Bucket, "accepted what the last import left out of bucket " + in.Bucket}, err
}

// acceptOperation declares acceptImport.
func (s *Buckets) acceptOperation() operate.Operation {
	return operate.NewChange(operate.About{
		Path: "buckets/accept-import", Doc: "Accept what the last import left out of a bucket", Title: "Left out by the last import", Button: "Accept what is missing", Stays: true,
		Text: "holdfast check no longer shows it. The next import shows it again.", Example: "main photos",
	}, on(s, s.acceptImport))
}
