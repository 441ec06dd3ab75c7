package buckets

import (
	"context"
	"slices"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
)

// showDamages lists the damaged copies.
func (s *Buckets) showDamages(ctx context.Context, r *service.PageRequest) (*service.View, error) {
	q := buckets.DamageQuery{Limit: consoleRows}
	q.After.Node, q.After.Path, _ = strings.Cut(r.Value("after"), " ")
	page, err := s.store.Marked(ctx, q)
	if err != nil {
		return nil, err
	}
	t := &service.Table{Columns: []service.Column{
		{Title: "Object"}, {Title: "Node"}, {Title: "Problem"}, {Title: "State"}, {Title: "Found"}, {Title: "Attempts", Number: true}, {Title: "Next attempt"}, {Title: "Reason"},
	}, Empty: "No damaged copies are known."}
	of := &names{store: s.store, accounts: map[buckets.AccountID]*accountNames{}}
	for i := range page {
		d := &page[i]
		name, err := of.damaged(ctx, d)
		if err != nil {
			return nil, err
		}
		state := service.Cell{State: service.Warning, Text: "to be repaired"}
		if d.State == buckets.Lost {
			state = service.Cell{State: service.Wrong, Text: "no good copy is left"}
		}
		t.Rows = append(t.Rows, []service.Cell{
			service.TextCell(name), service.TextCell(d.Node), service.TextCell(d.Problem), state, momentCell(d.FirstSeen),
			service.TextCell(decimal(int64(d.Attempts))), momentCell(d.Next), service.TextCell(d.Error),
		})
	}
	if len(page) == consoleRows {
		last := page[consoleRows-1].Copy
		t.Next = last.Node + " " + last.Path
	}
	return &service.View{Blocks: []service.Block{&service.Text{
		Body: "A copy is damaged if it is missing, or if a checksum is wrong. Reads use other copies, and servers rewrite it from a good one. Without a good copy the object cannot be read: " +
			"restore it from a backup, or delete it.",
	}, t}}, nil
}

// scrubCells show how far the scrubber is on a node, and when it has read all copies.
func scrubCells(all []buckets.Scrub, node string) []service.Cell {
	i := slices.IndexFunc(all, func(p buckets.Scrub) bool { return p.Node == node })
	if i < 0 {
		return []service.Cell{service.TextCell("-"), service.TextCell("-")}
	}
	p := all[i]
	progress := service.TextCell("complete")
	if !p.Done {
		progress = service.Cell{Text: service.FormatBytes(p.Bytes) + " of " + service.FormatBytes(p.Total), Share: scrubShare(p), Most: 1}
	}
	return []service.Cell{progress, momentCell(p.Ended)}
}
