package guest

import (
	"context"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/operate"
)

// userOperations declares the sessions of signed-in users. Ending a session deletes nothing: see sessions/erase for the
// user's list.
func (s *Guest) userOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "user-sessions", Rows: "sessions", Doc: "List signed-in users' sessions", Title: "User sessions", Empty: "No user is signed in.",
			Group: "Manage signed-in users' sessions", Text: "A user has a session in each browser. They share a list, which is itself a session that can be erased.",
		}, s.listUserSessions),
		operate.NewChange(operate.About{
			Path: "user-sessions/end", Doc: "Sign a user out of a browser", Ask: "The browser starts a new guest session. The user's data stays.",
		}, s.endUserSession),
		operate.NewChange(operate.About{
			Path: "user-sessions/end-all", Doc: "Sign a user out of all browsers", NewRow: true, Title: "Sign a user out", Button: "Sign out",
			Text: "Signs the user out of all browsers. The user's data stays.",
		}, s.endUserSessions),
	}
}

// userSessionOutput has the fields of guest.UserSession, in the same order.
type userSessionOutput struct {
	ID     guest.ID  `json:"id" title:"Session" subject:"session" cursor:"" example:"gus_01KB2Q4Y7N5M3K2H1G0F9E8D7B"`
	User   string    `json:"user" title:"User" main:"" example:"u-4711"`
	List   guest.ID  `json:"list" title:"List" aside:"" doc:"session that holds the user's data" example:"gms_01KB2Q4Y7N5M3K2H1G0F9E8D7B"`
	Linked time.Time `json:"linkedAt" aside:"" doc:"sign-in time"`
	Seen   time.Time `json:"lastSeenAt" title:"Last seen" aside:"" doc:"last request, up to a day late"`
}

type userSessionsInput struct {
	User string `flag:"user" doc:"only this user's sessions"`
	operate.Page[string]
}

// Check requires a user session ID as the position of a page.
func (in userSessionsInput) Check() error {
	if _, ok := guest.ParseID(guest.UserSessionPrefix, in.After); !ok && in.After != "" {
		return &operate.InputError{Input: "after", Reason: "expected next from the previous page"}
	}
	return in.Page.Check()
}

// listUserSessions orders by session ID, which is the order of sign-ins.
func (s *Guest) listUserSessions(ctx context.Context, in userSessionsInput) (all []userSessionOutput, err error) {
	p, err := s.parts()
	if err != nil {
		return nil, err
	}
	sessions, err := p.guests.UserSessions(ctx, guest.UserSessionQuery{User: in.User, After: guest.ID(in.After), Limit: in.Limit})
	for _, u := range sessions {
		all = append(all, userSessionOutput(u))
	}
	return all, err
}

type userSessionInput struct {
	Session string `subject:"session" doc:"session ID" schema:"UserSessionID"`
}

// Check refuses guests' session IDs, which begin with gms_.
func (in userSessionInput) Check() error {
	if _, ok := guest.ParseID(guest.UserSessionPrefix, in.Session); !ok {
		return &operate.InputError{Input: "session", Reason: "expected gus_ and a ULID"}
	}
	return nil
}

type userInput struct {
	User string `subject:"user" doc:"user name in the site's tokens"`
}

// Check requires a name that a token can contain.
func (in userInput) Check() error {
	if problem := guest.UserProblem(in.User); problem != "" {
		return &operate.InputError{Input: "user", Reason: problem + ": " + guest.ExpectedUser}
	}
	return nil
}

// endedOutput counts the browsers that were signed out.
type endedOutput struct {
	Sessions int `json:"sessions" least:"0"`
}

func (e endedOutput) Notice() string { return service.Count(int64(e.Sessions), "session") + " ended" }

// endUserSession returns errcode.NotFound if the session had ended already.
func (s *Guest) endUserSession(ctx context.Context, in userSessionInput) (endedOutput, error) {
	out, err := s.end(ctx, guest.EndUserSessions{Session: guest.ID(in.Session)})
	if err == nil && out.Sessions == 0 {
		err = errcode.New(errcode.NotFound, "no such session, or it has ended")
	}
	return out, err
}

// endUserSessions succeeds for a user without sessions: the result is 0.
func (s *Guest) endUserSessions(ctx context.Context, in userInput) (endedOutput, error) {
	return s.end(ctx, guest.EndUserSessions{User: in.User})
}

// end ends the sessions that e selects, on every server with this database.
func (s *Guest) end(ctx context.Context, e guest.EndUserSessions) (out endedOutput, err error) {
	p, err := s.parts()
	if err != nil {
		return out, err
	}
	out.Sessions, err = p.guests.EndUserSessions(ctx, e)
	return out, err
}
