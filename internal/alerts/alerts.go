// Package alerts notifies an operator through a webhook when a problem begins and ends.
package alerts

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/conf"
	"holdfast/internal/durable"
)

// Settings is the [alerts] section.
type Settings struct {
	URL        conf.Secret   `toml:"url" reload:"true" doc:"Webhook URL for alerts as JSON, sent when a problem starts and when it ends. Unset: no alerts."`
	Format     string        `toml:"format" reload:"true" doc:"Alert format: json, or slack for Slack-compatible webhooks, e.g. Mattermost's."`
	BackupAge  time.Duration `toml:"backup_age" reload:"true" doc:"Alert if the latest backup is older. Only with embedded databases. 0: never."`
	ReplicaLag time.Duration `toml:"replica_lag" reload:"true" doc:"Alert if acknowledged writes wait this long for the replica. 0: never."`
	DiskDays   int           `toml:"disk_days" reload:"true" doc:"Alert if a disk fills up within this many days, at the embedded databases' growth rate. 0: only when less than a tenth is free."`
}

// These are the alert formats.
const (
	JSON  = "json"
	Slack = "slack"
)

// Defaults returns the settings without a URL: no alerts.
func Defaults() Settings {
	return Settings{Format: JSON, BackupAge: 48 * time.Hour, ReplicaLag: 5 * time.Minute, DiskDays: 7}
}

// Check returns problems with keys relative to the section.
func (s *Settings) Check() (problems conf.Problems) {
	if s.URL != "" && !conf.IsURL(s.URL.Reveal()) {
		problems.Addf("url", "must be a URL that begins with https:// or http://")
	}
	if s.Format != JSON && s.Format != Slack {
		problems.Addf("format", "must be json or slack")
	}
	if s.BackupAge < 0 {
		problems.Addf("backup_age", "must not be negative")
	}
	if s.ReplicaLag != 0 && s.ReplicaLag < time.Minute {
		problems.Addf("replica_lag", "must be at least 1m, or 0")
	}
	if s.DiskDays < 0 {
		problems.Addf("disk_days", "must not be negative")
	}
	return problems
}

// Condition is a problem that lasts, in an alert's JSON.
type Condition struct {
	Name    string        `json:"name"`          // the kind, e.g. "disk"
	Subject string        `json:"subject"`       // the thing, e.g. a path; "": the server
	State   service.State `json:"-"`             // Warning or Wrong
	Says    string        `json:"says"`          // the problem, without a full stop
	Fix     string        `json:"fix,omitempty"` // advice, or ""
}

// key identifies a condition from one look to the next: the text may change meanwhile.
type key struct{ Name, Subject string }

func (c *Condition) key() key { return key{c.Name, c.Subject} }

// Told is a condition that was sent to the operator.
type Told struct {
	Condition

	Severity string    `json:"severity"` // "warning" or "critical"
	Since    time.Time `json:"since"`
}

// Message is an alert as it is sent.
type Message struct {
	Told

	Status string    `json:"status"` // Begun, Ended or Test
	At     time.Time `json:"at"`
	Server string    `json:"server"` // name of the server
	Title  string    `json:"title"`  // for a notification's head
	Text   string    `json:"text"`   // problem and advice
}

// These are the alert states.
const (
	Begun = "begun"
	Ended = "ended"
	Test  = "test"
)

// Alerts sends conditions as they begin and end. Set the exported fields and call Set before Run.
type Alerts struct {
	Server string // name in messages
	File   string // stores sent conditions across restarts
	Clock  clock.Clock
	Log    *slog.Logger

	Client *http.Client // default: no redirects

	// Conditions returns the problems that exist now.
	Conditions func(context.Context, Settings) []Condition

	settings atomic.Pointer[Settings]

	mu      sync.Mutex
	known   map[key]Told // sent conditions, by key
	failure *Failure     // of the latest attempt to send; nil: it succeeded, or there was none
}

// Failure says why the latest alert could not be sent.
type Failure struct {
	At   time.Time
	Says string
}

// Set may be called during Run. Another receiver ends a failure of the former one.
func (a *Alerts) Set(s Settings) {
	if was := a.settings.Swap(&s); was == nil || was.URL != s.URL {
		a.fail(nil)
	}
}

// Failure returns why the latest attempt to send an alert to alerts.url failed, or nil.
func (a *Alerts) Failure() *Failure {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failure
}

// fail stores why sending failed; nil: it succeeded.
func (a *Alerts) fail(f *Failure) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failure = f
}

// Findings reports a receiver that does not accept alerts: nobody is notified of problems.
func (a *Alerts) Findings() []service.Finding {
	f := a.Failure()
	if f == nil {
		return nil
	}
	return []service.Finding{{
		State: service.Warning, What: "alerts", Says: "the latest alert could not be sent at " + service.FormatMoment(f.At) + ": " + f.Says,
		Fix: "correct alerts.url or its receiver, and run: holdfast alerts test",
	}}
}

// Settings returns the settings of the last Set.
func (a *Alerts) Settings() Settings {
	if s := a.settings.Load(); s != nil {
		return *s
	}
	return Settings{}
}

const (
	interval    = 30 * time.Second // between looks at the conditions
	sendTimeout = 10 * time.Second
)

// Run sends changes between current problems and sent conditions until ctx ends. Conditions begin when found twice in
// a row and end when missing twice, which filters blips.
func (a *Alerts) Run(ctx context.Context) {
	a.mu.Lock()
	a.known = a.read()
	a.mu.Unlock()
	var before map[key]Condition
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		if s := a.Settings(); s.URL == "" {
			before = nil
			a.forget()
		} else {
			now := map[key]Condition{}
			for _, c := range a.Conditions(ctx, s) {
				now[c.key()] = c
			}
			if ctx.Err() != nil {
				return // findings may be misleading during shutdown
			}
			if before != nil && a.update(ctx, before, now) {
				a.write()
			}
			before = now
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

// forget drops the sent conditions when alerts are off: nobody would be told of their end, and a later receiver must be
// told of those that still last.
func (a *Alerts) forget() {
	a.mu.Lock()
	n := len(a.known)
	clear(a.known)
	a.mu.Unlock()
	if n > 0 {
		a.write()
	}
}

// update sends the conditions that began or ended between two looks. It reports whether the known ones changed.
func (a *Alerts) update(ctx context.Context, before, now map[key]Condition) (changed bool) {
	known := a.copy()
	at := a.Clock().UTC()
	for k, c := range now {
		_, was := before[k]
		if _, is := known[k]; is || !was {
			continue
		}
		told := Told{Condition: c, Severity: severity(c.State), Since: at}
		if a.send(ctx, a.message(Begun, &told)) != nil {
			return changed // sending others would take as long and fail, too
		}
		a.set(k, &told)
		changed = true
	}
	for k, told := range known {
		_, was := before[k]
		if _, is := now[k]; is || was {
			continue
		}
		if a.send(ctx, a.message(Ended, &told)) != nil {
			return changed
		}
		a.set(k, nil)
		changed = true
	}
	return changed
}

// copy returns the sent conditions, so that no lock is held while alerts are sent.
func (a *Alerts) copy() map[key]Told {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.known)
}

// set stores a sent condition; nil removes it.
func (a *Alerts) set(k key, told *Told) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if told == nil {
		delete(a.known, k)
	} else {
		a.known[k] = *told
	}
}

// Known returns the sent conditions that have not ended, oldest first.
func (a *Alerts) Known() []Told {
	all := slices.Collect(maps.Values(a.copy()))
	slices.SortFunc(all, func(a, b Told) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Name, b.Name), strings.Compare(a.Subject, b.Subject))
	})
	return all
}

// severity returns the word for a state in messages.
func severity(s service.State) string {
	if s == service.Wrong {
		return "critical"
	}
	return "warning"
}

// message makes an alert.
func (a *Alerts) message(status string, told *Told) Message {
	m := Message{Told: *told, Status: status, At: a.Clock().UTC(), Server: a.Server}
	m.Title = told.Name
	if told.Subject != "" {
		m.Title += " (" + told.Subject + ")"
	}
	m.Title += " on " + a.Server
	m.Text = told.Says
	switch {
	case status == Ended:
		m.Title = "Ended: " + m.Title
		m.Text = fmt.Sprintf("It lasted %s. It was: %s", m.At.Sub(told.Since).Round(time.Second), told.Says)
	case told.Fix != "":
		m.Text += ". To fix it: " + told.Fix
	}
	return m
}

// SendTest sends a test alert now. It returns an error if alerts.url is not set or the webhook refuses it.
func (a *Alerts) SendTest(ctx context.Context) error {
	if a.Settings().URL == "" {
		return errors.New("alerts.url is not set")
	}
	told := Told{Condition: Condition{Name: "test", Says: "this is a test: alerts reach you"}, Severity: "warning", Since: a.Clock().UTC()}
	return a.send(ctx, a.message(Test, &told))
}

// noRedirects treats a redirect as a failure to accept the alert.
var noRedirects = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// send sends an alert once, and logs it.
func (a *Alerts) send(ctx context.Context, m Message) error {
	err := a.post(ctx, m)
	log := a.Log.With("alert", m.Name, "subject", m.Subject, "status", m.Status)
	if err != nil {
		log.Warn("could not send an alert", "error", err)
		if ctx.Err() == nil { // otherwise the caller left, or the server stops
			a.fail(&Failure{a.Clock().UTC(), err.Error()})
		}
		return err
	}
	a.fail(nil)
	log.Info("alert", "says", m.Says)
	return nil
}

// post sends the request; any status but 2xx is an error.
func (a *Alerts) post(ctx context.Context, m Message) error {
	var body any = m
	settings := a.Settings()
	if settings.Format == Slack {
		body = map[string]string{"text": "*" + m.Title + "*\n" + m.Text}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, settings.URL.Reveal(), bytes.NewReader(text))
	if err != nil {
		return errors.New("alerts.url is not valid") // the error contains the URL, which may be secret
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := cmp.Or(a.Client, noRedirects).Do(r)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("the webhook does not answer: %w", wrapped.Err)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // reuse the connection
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the webhook answers with status %d", resp.StatusCode)
	}
	return nil
}

// read treats an unreadable file as empty, so that alerts are sent again.
func (a *Alerts) read() map[key]Told {
	known := map[key]Told{}
	text, err := os.ReadFile(a.File)
	if errors.Is(err, fs.ErrNotExist) {
		return known
	}
	var all []Told
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		a.Log.Warn("could not read which alerts were sent", "file", a.File, "error", err)
		return known
	}
	for _, told := range all {
		known[told.key()] = told
	}
	return known
}

// write only logs errors, e.g. of a full disk: then only this process knows the sent conditions.
func (a *Alerts) write() {
	text, err := json.Marshal(a.Known())
	if err == nil {
		err = durable.Replace(a.File, durable.Bytes(text))
	}
	if err != nil {
		a.Log.Warn("could not store which alerts were sent", "file", a.File, "error", err)
	}
}
