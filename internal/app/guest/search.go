package guest

import (
	"context"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
)

// search finds sessions by ID prefix, which must include gms_. A complete ID is always found, because sessions without
// a wishlist are in no table.
func (s *Guest) search(ctx context.Context, prefix string) (hits []service.Hit, err error) {
	random, ok := strings.CutPrefix(strings.ToUpper(prefix), strings.ToUpper(guest.SessionPrefix))
	if !ok || strings.Trim(random, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") != "" {
		return nil, nil
	}
	ids, err := s.opened.guests.FindSessions(ctx, guest.SessionPrefix+random, service.MaxHits)
	if err != nil {
		return nil, err
	}
	if id, ok := guest.ParseID(guest.SessionPrefix, guest.SessionPrefix+random); ok {
		ids = []guest.ID{id}
	}
	for _, id := range ids {
		hits = append(hits, service.Hit{Kind: "Session", Text: string(id), To: service.PageLink("session", "session", string(id))})
	}
	return hits, nil
}

// showSession omits the guest's notes, because reading them requires the cookie.
func (s *Guest) showSession(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	id, ok := guest.ParseID(guest.SessionPrefix, r.Value("session"))
	if !ok {
		return nil, errcode.New(errcode.Invalid, "session: expected gms_ and a ULID")
	}
	wishes, err := s.wishTable(ctx, id, false)
	if err != nil {
		return nil, err
	}
	return &service.View{Title: "Session " + string(id), Parents: []service.Link{{Text: "Guest sessions", To: "sessions"}}, Blocks: []service.Block{
		&service.Facts{Rows: []service.Fact{{Name: "Began", Cell: service.TimeCell(id.Time())}}}, wishes,
		&service.Form{
			Title: "Erase the session", Text: "Everything that is stored about the session is deleted, and its open handoffs become void.", Action: "erase", Page: "sessions",
			Submit: "Erase", Ask: "This cannot be undone.", Danger: true, Keep: map[string]string{"session": string(id)},
		},
	}}, nil
}

// openSession opens the page of any valid session ID, also of a session that never existed.
func (s *Guest) openSession(_ context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	id := strings.TrimSpace(r.Value("session"))
	if _, ok := guest.ParseID(guest.SessionPrefix, id); !ok {
		return o, errcode.New(errcode.Invalid, "session: expected gms_ and a ULID")
	}
	o.Next = service.PageLink("session", "session", id)
	return o, nil
}
