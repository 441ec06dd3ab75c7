package overview

import (
	"context"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/changes"
	"holdfast/internal/operate"
)

// changeOperations returns the list of operators' changes (package changes).
func changeOperations(o *Operated) []operate.Operation {
	return []operate.Operation{operate.NewList(operate.About{
		Access: operate.ForViewers, Path: "changes", Doc: "List operator changes, latest first", Group: "Read operator changes",
		Title: "Changes", Empty: "No change matches.", ServerOnly: true,
		Text: "Changes made in the console or with the admin token, and downloads of files with secrets. The server keeps the latest in its data folder, in about 1 MiB. " +
			"Its log contains all changes, as lines with the message \"operator change\".",
	}, listChanges(o))}
}

type changesInput struct {
	Who     string `flag:"who" doc:"only changes by this operator, e.g. admin session 3, or admin token"`
	Service string `flag:"service" names:"service,server" doc:"only changes to this service, or server"`
	Text    string `flag:"text" doc:"only changes whose action, values or error contain this text"`
	Since   string `flag:"since" doc:"start date or time, in UTC" example:"2026-11-21"`
	Until   string `flag:"until" doc:"end time, or last date, in UTC" example:"2026-11-21 15:04"`
	operate.Page[int64]
}

// Check checks the dates, so that listChanges can ignore their errors.
func (in changesInput) Check() error {
	for name, text := range map[string]string{"since": in.Since, "until": in.Until} {
		if _, _, err := parseDay(name, text); err != nil {
			return err
		}
	}
	return nil
}

// parseDay parses a date or time in UTC, as typed or as browsers send it. isDay is true for a date, which as the end
// of a period includes the whole day. "" is the zero time.
func parseDay(name, text string) (at time.Time, isDay bool, err error) {
	if text == "" {
		return at, false, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", time.DateOnly} {
		if at, err = time.Parse(layout, text); err == nil {
			return at, layout == time.DateOnly, nil
		}
	}
	return at, false, &operate.InputError{Input: name, Reason: "expected a UTC date or time, e.g. 2026-11-21 or 2026-11-21 15:04"}
}

// changeResult is why a change failed; "": it succeeded.
type changeResult string

func (r changeResult) Cell() service.Cell {
	if r == "" {
		return service.Cell{State: service.OK}
	}
	return service.Cell{State: service.Wrong, Text: string(r)}
}

type changeOutput struct {
	Number  int64           `json:"number" cursor:"" least:"1" doc:"ascending"`
	At      time.Time       `json:"at" title:"Time"`
	Who     string          `json:"who" title:"Who" example:"admin session 3"`
	Service string          `json:"service" title:"Service" doc:"service, or server"`
	Page    string          `json:"page" doc:"or the operation's noun" example:"keys"`
	Action  string          `json:"action" example:"revoke"`
	Done    string          `json:"-" title:"Action"`
	What    []service.Named `json:"what" doc:"changed values; long values are cut"`
	Values  string          `json:"-" title:"What" zero:"-"`
	Failed  changeResult    `json:"failed,omitempty" title:"Result" doc:"error; missing: success"`
	Address string          `json:"address,omitempty" title:"Address" zero:"-" doc:"operator's network address"`
}

// listChanges returns no rows on a machine that is not the server: the log of changes belongs to the process.
func listChanges(o *Operated) func(context.Context, changesInput) ([]changeOutput, error) {
	return func(_ context.Context, in changesInput) (rows []changeOutput, err error) {
		if o.Changes == nil {
			return nil, nil
		}
		f := changes.Filter{Who: in.Who, Service: in.Service, Text: in.Text, Before: in.After, Limit: in.Limit}
		f.Since, _, _ = parseDay("since", in.Since)
		until, isDay, _ := parseDay("until", in.Until)
		if f.Until = until; isDay {
			f.Until = until.AddDate(0, 0, 1)
		}
		for _, e := range o.Changes.List(&f) {
			rows = append(rows, changeOutput{
				e.Number, e.At, e.Who, e.Service, e.Page, e.Action, e.Page + " " + e.Action, append([]service.Named{}, e.What...), e.Text(), changeResult(e.Failed), e.Address,
			})
		}
		return rows, nil
	}
}
