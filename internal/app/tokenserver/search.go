package tokenserver

import (
	"context"
	"strconv"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/tokenserver"
)

// finds are the hints on the page with the search results.
var finds = []service.Query{
	{What: "Accounts by label", Example: "anna"}, {What: "Accounts by ID", Example: "0123abcd"}, {What: "Accounts by UID", Example: "17"},
}

// search finds accounts for the console's search field, by label, ID and UID. Labels come first.
func (s *Accounts) search(ctx context.Context, prefix string) ([]service.Hit, error) {
	labels, err := s.opened.FindLabels(ctx, prefix, tokenserver.Label{}, service.MaxHits)
	if err != nil && !errcode.Is(err, errcode.Invalid) { // not a label prefix
		return nil, err
	}
	var hits []service.Hit
	for _, l := range labels {
		hits = append(hits, accountHit(l.FxAUID, l.Text))
	}
	ids, err := s.accountsWith(ctx, prefix)
	if err != nil {
		return nil, err
	}
	names, err := s.opened.LabelsOf(ctx, ids)
	for _, id := range ids {
		hits = append(hits, accountHit(id, names[id].Text))
	}
	return hits, err
}

// accountHit shows the label, or the ID if the label is "".
func accountHit(id, label string) service.Hit {
	hit := service.Hit{Kind: "Account", Text: id, To: service.PageLink("accounts/show", "account", id)}
	if label != "" {
		hit.Text = label
	}
	return hit
}

// accountsWith returns the IDs of the accounts that a text may mean: an ID, an ID's beginning, or a UID. Decimal digits
// may be both. A text that cannot be any of these finds nothing, without an error.
func (s *Accounts) accountsWith(ctx context.Context, prefix string) (ids []string, err error) {
	id := strings.ToLower(prefix)
	if tokenserver.IsAccountID(id) {
		_, _, err := s.known(ctx, s.opened, id)
		if errcode.Is(err, errcode.NotFound) {
			return nil, nil
		}
		return []string{id}, err
	}
	if _, _, err := tokenserver.PrefixRange(id); err != nil { // not an ID prefix
		return nil, nil //nolint:nilerr // nothing is found
	}
	users, err := s.opened.FindUsers(ctx, id, "", service.MaxHits)
	if err != nil {
		return nil, err
	}
	for i := range users {
		ids = append(ids, users[i].Account().FxAUID)
	}
	if uid, err := strconv.ParseInt(id, 10, 64); err == nil && uid > 0 {
		users, err := s.opened.ListUsers(ctx, uid-1, 1, true)
		if err != nil {
			return nil, err
		}
		if len(users) > 0 && users[0].UID == uid {
			ids = append(ids, users[0].Account().FxAUID)
		}
	}
	return ids, nil
}
