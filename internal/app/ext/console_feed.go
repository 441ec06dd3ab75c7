package ext

import (
	"context"
	"errors"
	"slices"
	"time"

	"holdfast/internal/app/service"
	ext "holdfast/internal/extstorage"
)

const (
	// feedRows is how many changes the page shows; it reads them again every feedEvery.
	feedRows  = 100
	feedEvery = 2 * time.Second
)

// showFeed shows an install's latest changes, the newest first, and refreshes them.
func (s *Extensions) showFeed(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	p, err := parseNamespaceRef(r, parseInstall...)
	if err != nil {
		return nil, err
	}
	changes, last, err := s.latestChanges(ctx, p.request(ctx))
	if err != nil {
		return nil, explained(err)
	}
	t := &service.Table{
		Columns: []service.Column{{Title: "Number", Number: true}, {Title: "Time"}, {Title: "Change"}, {Title: "Namespace"}, {Title: "Key"}, {Title: "Revision", Number: true}},
		Empty:   "No change is stored.", Partial: len(changes) == feedRows,
	}
	for _, c := range slices.Backward(changes) {
		at := namespaceRef{p.Owner, c.Namespace}
		t.Rows = append(t.Rows, []service.Cell{
			service.TextCell(decimal(int64(c.Seq))), momentCell(c.At), service.TextCell(string(c.Op)),
			{Text: string(c.Namespace), To: service.PageLink("records", at.values()...)},
			{Text: string(c.Key), To: service.PageLink("record", at.values("key", string(c.Key))...)}, service.TextCell(decimal(int64(c.Revision))),
		})
	}
	facts := &service.Facts{Rows: []service.Fact{{Name: "Latest change", Cell: service.TextCell(decimal(int64(last)))}}}
	return &service.View{Title: "Changes in install " + string(p.Install), Parents: p.trail()[:3], Blocks: []service.Block{
		&service.Live{Every: feedEvery, Blocks: []service.Block{facts, t}},
	}}, nil
}

// latestChanges returns changes oldest first, and may return fewer than feedRows after deletions.
func (s *Extensions) latestChanges(ctx context.Context, r ext.Request) (changes []ext.Change, last ext.Seq, err error) {
	feed, err := s.opened.Changes(ctx, r, 0, 0, 0)
	if err != nil {
		return nil, 0, err
	}
	last = feed.Last
	// Older changes may be deleted: ask for fewer until they exist.
	for rows := min(last, feedRows); rows > 0; rows /= 2 {
		feed, err = s.opened.Changes(ctx, r, last-rows, feedRows, 0)
		if !errors.Is(err, ext.ErrChangesGone) {
			return feed.Changes, max(last, feed.Last), err
		}
	}
	return nil, last, nil
}
