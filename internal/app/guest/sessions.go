package guest

import (
	"context"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/guest"
	"holdfast/internal/operate"
)

// sessionOperations declares the erasure of a session, e.g. at a guest's request.
func (s *Guest) sessionOperations() []operate.Operation {
	return []operate.Operation{operate.NewChange(operate.About{
		Path: "sessions/erase", Group: "Manage guest sessions", Doc: "Delete everything that is stored about a session",
		More: "Erases its wishlist, handoffs, stored responses, bot scores, published events, preferences and lists. Open\n" +
			"handoffs become void. Audit events stay until they are old, and unpublished events until they are published;\n" +
			"they contain the session ID, which is random. If the command fails, run it again. It lists the backups and\n" +
			"replicas that still hold the session's data, until when, and any remains in the database server.",
		Title: "Erase a session", Text: "Deletes all data stored about the session and voids its open handoffs. The sites that receive handoffs know the session ID.",
		Ask: "This cannot be undone.", Danger: true, NeedsYes: true, NewRow: true,
	}, s.eraseSession)}
}

type sessionInput struct {
	Session string `subject:"session" doc:"session ID" schema:"SessionID"`
}

// Check accepts a guest's session, or a signed-in user's list, which is a session as well. A user session (gus_)
// contains no data.
func (in sessionInput) Check() error {
	if _, ok := guest.ParseID(guest.SessionPrefix, in.Session); !ok {
		return &operate.InputError{Input: "session", Reason: "expected gms_ and a ULID"}
	}
	return nil
}

// lines is a list of sentences; people see "none" for an empty list.
type lines []string

// String joins the sentences for a page or a terminal.
func (l lines) String() string {
	if len(l) == 0 {
		return "none"
	}
	return strings.Join(l, "; ")
}

// eraseOutput counts the erased rows. Answers are responses that were stored for repeated requests.
type eraseOutput struct {
	Wishes    int   `json:"wishes" title:"Wishes" least:"0"`
	Handoffs  int   `json:"handoffs" title:"Handoffs" least:"0"`
	Answers   int   `json:"answers" title:"Stored answers" least:"0"`
	BotScores int   `json:"botScores" title:"Bot scores" least:"0"`
	Events    int   `json:"events" title:"Events" least:"0"`
	Kept      int   `json:"keptEvents" title:"Kept events" least:"0" doc:"audit events, and events not published yet"`
	Remains   lines `json:"remains" title:"Remains" doc:"places where the database may still hold deleted content; empty with SQLite, which erases it from its file and WAL"`
	service.Deleted

	// note says that another process keeps state in memory; "" with Redis, and with SQLite, which tells that process.
	note string
}

// Notice is "", so that all counts are shown.
func (e eraseOutput) Notice() string { return "" }

// Note is shown beside the counts.
func (e eraseOutput) Note() string { return e.note }

// eraseSession may leave data after an error; erasing again continues. A session's ID contains its beginning, so that
// older backups are not listed.
func (s *Guest) eraseSession(ctx context.Context, in sessionInput) (eraseOutput, error) {
	p, err := s.parts()
	if err != nil {
		return eraseOutput{}, err
	}
	e, err := p.guests.Erase(ctx, in.Session)
	if err != nil {
		return eraseOutput{}, err
	}
	id, _ := guest.ParseID(guest.SessionPrefix, in.Session)
	still, err := p.deleted(id.Begun(), Name)
	if err != nil {
		return eraseOutput{}, err
	}
	out := eraseOutput{e.Wishes, e.Handoffs, e.Answers, e.BotScores, e.Events, e.Kept, e.Remains, still, ""}
	if s.cfg.Hot == hotMemory && !p.hot.keeps {
		out.note = "A running server keeps preferences and lists in memory. To delete them, send POST /guest/sessions/" + in.Session +
			"/erase\nto its admin listener, or restart it."
	}
	return out, nil
}
