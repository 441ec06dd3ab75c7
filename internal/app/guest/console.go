package guest

import (
	"cmp"
	"context"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/operate"
)

// consoleRows limits the wishlist entries on a page. wishTable's title repeats it.
const consoleRows = 100

// Sessions without a wishlist exist only in hot state.
var counts = []service.Counted{{Of: "wishlist", Table: "bff_consumer_session_seen"}, {Of: "handoff", Table: "bff_consumer_handoff_replay_log"}}

// console returns the pages that need more than an operation's form: a session can only be shown with its cookie or its
// ID, which the operator types.
func (s *Guest) console() *service.Console {
	return &service.Console{Title: "Guests", Icon: "hotel", Menu: []service.MenuItem{
		{Title: "Sessions", Pages: []string{"sessions", "user-sessions"}}, {Title: "Handoffs", Pages: []string{"keys", "refusals"}}, {Title: "Tenants", Pages: []string{"tenants", "tenant-keys", "tokens"}},
		{Title: "Events", Pages: []string{"outbox", "events", "event-schemas", "quarantine"}}, {Title: "Dead letters", Pages: []string{"dead-letters"}}, {Title: "Retention", Pages: []string{"jobs"}},
	}, Backlogs: s.backlogs, Search: s.search, Finds: []service.Query{{What: "Guest sessions by ID", Example: "gms_01"}}, Counts: counts, Pages: []service.Page{
		{Path: "sessions", Title: "Guest sessions", Listed: true, Access: operate.ForViewers, Show: s.showSessionForm, Actions: []service.Action{
			{Name: "find", Reads: true, Run: s.findSession}, {Name: "open", Reads: true, Run: s.openSession},
		}},
		{Path: "session", Title: "Session", Access: operate.ForViewers, Show: s.showSession},
	}}
}

// errCookie does not quote the cookie, which is a credential.
var errCookie = errcode.New(errcode.Invalid, "the cookie is not valid: expected the cookie value from the guest's browser, signed with a current or old guest.cookie_secret")

// showSessionForm shows the forms for a cookie and for a session ID. There is no list of sessions.
func (s *Guest) showSessionForm(context.Context, *service.PageRequest) (*service.View, error) {
	return &service.View{Blocks: []service.Block{&service.Form{
		Text: "A session's preferences, notes and lists are shown only with its cookie, which the guest can give you. Looking it up counts as using the session.", Action: "find", Submit: "Show session",
		Fields: []service.Field{{Name: "cookie", Label: "Cookie", Secret: true, Help: "The value, or name=value as copied from a browser's developer tools."}},
	}, &service.Form{
		Title: "Session wishlist", Text: "The sites that receive handoffs know the session ID.", Action: "open", Submit: "Show wishlist",
		Fields: []service.Field{{Name: "session", Label: "Session", Help: "Session ID"}},
	}}}, nil
}

// listOf returns the session with the data: for a signed-in user's browser, the user's list; otherwise the session
// itself. It returns errCookie if the user was signed out.
func (s *Guest) listOf(ctx context.Context, id guest.ID) (guest.ID, error) {
	if !strings.HasPrefix(string(id), guest.UserSessionPrefix) {
		return id, nil
	}
	u, found, err := s.opened.guests.UserSession(ctx, id)
	if err == nil && !found {
		err = errCookie
	}
	return u.List, err
}

// findSession does not log the cookie.
func (s *Guest) findSession(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	cookie := strings.TrimSpace(r.Value("cookie"))
	if _, value, ok := strings.Cut(cookie, "="); ok {
		cookie = value
	}
	id, old, ok := s.opened.guests.VerifyCookie(cookie)
	if !ok {
		return o, errCookie
	}
	if id, err = s.listOf(ctx, id); err != nil {
		return o, err
	}
	session, err := s.opened.guests.Session(ctx, id, guest.Change{})
	if err != nil {
		return o, err
	}
	wishes, err := s.wishTable(ctx, id, true)
	if err != nil {
		return o, err
	}
	viewed, err := s.opened.guests.Viewed(ctx, id)
	if err != nil {
		return o, err
	}
	searched, err := s.opened.guests.History(ctx, id)
	if err != nil {
		return o, err
	}
	signed := "with the current secret"
	if old {
		signed = "with an old secret"
	}
	lastSeen := service.TextCell("unknown: the session's state was lost or never existed")
	if !session.LastSeen.IsZero() {
		lastSeen = service.TimeCell(session.LastSeen)
	}
	facts := &service.Facts{Rows: []service.Fact{
		{Name: "Session", Cell: service.TextCell(string(session.ID))}, {Name: "Cookie", Cell: service.TextCell("signed " + signed)},
		{Name: "Began", Cell: service.TimeCell(session.Created)}, {Name: "Last use before", Cell: lastSeen},
		{Name: "Locale", Cell: service.TextCell(cmp.Or(session.Locale, "-"))}, {Name: "Currency", Cell: service.TextCell(cmp.Or(session.Currency, "-"))},
		{Name: "Campaign", Cell: service.TextCell(cmp.Or(session.Campaign, "-"))},
	}}
	seen := &service.Table{Title: "Viewed", Empty: "The guest viewed nothing.", Columns: []service.Column{{Title: "Property"}, {Title: "Tenant"}, {Title: "Time"}}}
	for _, v := range viewed {
		seen.Rows = append(seen.Rows, []service.Cell{service.IDCell(v.ItemID), service.IDCell(v.TenantID), service.TimeCell(v.ViewedAt)})
	}
	searches := &service.Table{Title: "Searches", Empty: "The guest searched nothing.", Columns: []service.Column{{Title: "Query"}, {Title: "Time"}}}
	for _, search := range searched {
		searches.Rows = append(searches.Rows, []service.Cell{service.TextCell(string(search.Query)), service.TimeCell(search.SearchedAt)})
	}
	o.View = &service.View{Title: "Guest session", Parents: []service.Link{{Text: "Guest sessions", To: "sessions"}}, Blocks: []service.Block{facts, wishes, seen, searches}}
	return o, nil
}

// wishTable shows the first wishlist entries, with the guest's notes only if the cookie was given.
func (s *Guest) wishTable(ctx context.Context, id guest.ID, notes bool) (*service.Table, error) {
	wishes, err := s.opened.guests.Wishes(ctx, id, nil, consoleRows)
	if err != nil {
		return nil, err
	}
	t := &service.Table{Title: "Wishlist", Empty: "The wishlist is empty.", Columns: []service.Column{{Title: "Property"}, {Title: "Tenant"}, {Title: "Source"}, {Title: "Added"}}}
	if notes {
		t.Columns = append(t.Columns, service.Column{Title: "Note"})
	}
	for i := range wishes {
		w := &wishes[i]
		row := []service.Cell{service.IDCell(w.Item), service.IDCell(w.Tenant), service.TextCell(w.Source), service.TimeCell(w.Added)}
		if notes {
			row = append(row, service.TextCell(w.Note))
		}
		t.Rows = append(t.Rows, row)
	}
	if len(wishes) == consoleRows {
		t.Title = "The latest 100 wishlist entries"
	}
	return t, nil
}
