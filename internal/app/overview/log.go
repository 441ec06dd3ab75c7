package overview

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/obs"
	"holdfast/internal/operate"
)

const logLive = 2 * time.Second // between page refreshes

// LogOperation lists the log lines in memory.
func LogOperation(o *Operated) operate.Operation {
	return operate.NewList(operate.About{
		Access: operate.ForViewers, Path: "log", Doc: "List the newest log lines, the latest first", Rows: "lines", Group: "Read the server log",
		Title: "Log", Empty: "No line in memory matches this level, service, status and text.", ServerOnly: true, Live: logLive,
		Text: fmt.Sprintf("The newest log lines, kept in memory: at most %d, or %s, without console requests. The complete log is in the journal, or wherever standard error goes. "+
			"The last %d requests with status 401 or 403 are kept, too; with log.access, all requests are logged.",
			obs.TailLines, service.FormatBytes(obs.TailBytes), obs.TailRefused),
	}, listLog(o))
}

type logInput struct {
	Level   string `flag:"level" doc:"minimum level" enum:"debug,info,warn,error"`
	Service string `flag:"service" names:"service,server" doc:"only lines from this service; server: lines without a service"`
	Status  string `flag:"status" doc:"only requests with this HTTP status, e.g. 403 or 4xx"`
	Text    string `flag:"text" doc:"only lines containing this text, ignoring case"`
	operate.Latest
}

// Check refuses a text that is neither a status nor a class of them.
func (in logInput) Check() error {
	if in.Status != "" && !statusPattern.MatchString(in.Status) {
		return &operate.InputError{Input: "status", Reason: "expected an HTTP status or its class, e.g. 403 or 4xx"}
	}
	return nil
}

var statusPattern = regexp.MustCompile("^[1-5](xx|[0-9][0-9])$")

// hasStatus reports whether a line is about a request with the status; in.Status "" accepts all lines.
func (in logInput) hasStatus(status int) bool {
	class, isClass := strings.CutSuffix(in.Status, "xx")
	if isClass {
		return class == strconv.Itoa(status/100)
	}
	return in.Status == "" || in.Status == strconv.Itoa(status)
}

// least returns a level below all others if none is chosen.
func (in logInput) least() (level slog.Level) {
	if in.Level == "" || level.UnmarshalText([]byte(in.Level)) != nil {
		return slog.LevelDebug - 100
	}
	return level
}

type logLevel struct{ level slog.Level }

func (l logLevel) String() string { return strings.ToLower(l.level.String()) }

func (l logLevel) Cell() service.Cell {
	switch {
	case l.level >= slog.LevelError:
		return service.Cell{State: service.Wrong}
	case l.level >= slog.LevelWarn:
		return service.Cell{State: service.Warning}
	}
	return service.TextCell(l.String())
}

// LogLine is a log line, with its attributes as text.
type LogLine struct {
	At         time.Time `json:"time,omitzero" title:"Time"`
	Level      string    `json:"level" doc:"debug, info, warn or error" example:"warn"`
	Shown      logLevel  `json:"-" title:"Level"`
	Service    string    `json:"service,omitempty" title:"Service" zero:"server" doc:"missing: not from a service"`
	Message    string    `json:"message" title:"Message" main:"" example:"server stopped"`
	Status     int       `json:"status,omitempty" title:"Status" zero:"-" doc:"missing: not about a request" example:"403"`
	Error      string    `json:"error,omitempty" title:"Error" zero:"-" doc:"reason of a refusal or failure" example:"the token has expired"`
	Attributes string    `json:"attributes,omitempty" title:"Details" doc:"as logged; lines over 8 KiB are cut"`
}

// listLog returns the operation's function. It filters the lines in memory, newest first. "server" as the service means lines without a service.
func listLog(o *Operated) func(context.Context, logInput) ([]LogLine, error) {
	return func(_ context.Context, in logInput) (rows []LogLine, err error) {
		if o.Log == nil {
			return nil, nil
		}
		least, text := in.least(), strings.ToLower(in.Text)
		all, _ := o.Log.Lines()
		for i := range all {
			l := &all[i]
			if len(rows) == in.Limit {
				break
			}
			of := l.Service
			if of == "" {
				of = "server"
			}
			if l.Level < least || in.Service != "" && in.Service != of || !in.hasStatus(l.Status) {
				continue
			}
			if text != "" && !strings.Contains(strings.ToLower(l.Message+"\n"+l.Error+"\n"+l.Attributes), text) {
				continue
			}
			level := logLevel{l.Level}
			rows = append(rows, LogLine{l.At, level.String(), level, l.Service, l.Message, l.Status, l.Error, l.Attributes})
		}
		return rows, nil
	}
}

// showLog adds to the log's page how much is in memory and since when.
func (o *Overview) showLog(context.Context, *service.PageRequest) (*service.View, error) {
	all, size := o.Log.Lines()
	text := "No line is in memory."
	if n := len(all); n > 0 {
		text = fmt.Sprintf("In memory: %s (%s), since %s.", service.Count(int64(n), "line"), service.FormatBytes(int64(size)), service.FormatMoment(all[n-1].At))
	}
	return &service.View{Blocks: []service.Block{&service.Text{Body: text}}}, nil
}
