package overview

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/replica"
	"holdfast/internal/replica/location"
)

// pointsOutput summarizes a day's restore points, since there may be thousands.
type pointsOutput struct {
	Day    string    `json:"day" title:"Day" doc:"in UTC" example:"2026-11-21"`
	Points int       `json:"points" title:"Restore points" least:"1"`
	First  time.Time `json:"first" title:"First"`
	Last   time.Time `json:"last" title:"Last"`
}

// listPoints returns the newest day first.
func (c *Copies) listPoints(ctx context.Context, _ operate.None) (rows []pointsOutput, err error) {
	for _, p := range slices.Backward(c.readPoints(ctx)) {
		day := p.Time.UTC().Format(time.DateOnly)
		if n := len(rows); n > 0 && rows[n-1].Day == day {
			rows[n-1].Points, rows[n-1].First = rows[n-1].Points+1, p.Time.UTC()
			continue
		}
		rows = append(rows, pointsOutput{day, 1, p.Time.UTC(), p.Time.UTC()})
	}
	return rows, nil
}

// readPoints returns the restore points that the background read found so far, oldest first. A missing target has
// none, because the replica creates it.
func (c *Copies) readPoints(ctx context.Context) []replica.Listed {
	if c.Replica == nil || c.Replica().URL == "" {
		return nil
	}
	address := c.Replica().URL
	return c.points.get(ctx, address, c.Clock, func(ctx context.Context) (content replica.Content, err error) {
		target, closeIt, err := c.Clouds.Open(ctx, address)
		if err != nil {
			return content, err
		}
		defer func() { err = errors.Join(err, closeIt()) }()
		content, err = replica.Inspect(ctx, target)
		if errcode.Is(err, errcode.NotFound) {
			err = nil
		}
		return content, err
	}).Points
}

// showBackups adds to the page Backups where the backups are, when the next is due, and the key that a restore asks
// for.
func (o *Overview) showBackups(ctx context.Context, _ *service.PageRequest) (*service.View, error) {
	settings := o.Copies.Backups.Settings()
	if settings.URL == "" { // the page says how to set it
		return &service.View{Blocks: []service.Block{o.replicaFacts(ctx)}}, nil
	}
	f := &service.Facts{Title: "Backups", Rows: listFacts(o.Copies.listed.state(), settings.URL, "backup.url")}
	if s := o.Copies.Backups.State(); !s.Since.IsZero() {
		f.Rows = append(f.Rows, service.Fact{Name: "Being made since", Cell: service.TimeCell(s.Since)})
	} else if !s.Next.IsZero() {
		f.Rows = append(f.Rows, service.Fact{Name: "Next one due", Cell: service.TimeCell(s.Next)})
	}
	if key := o.Copies.signer(); !key.IsZero() {
		f.Rows = append(f.Rows, service.Fact{Name: "Signed by", Cell: service.TextCell(key.String() + ": keep it with the private key, a restore asks for it")})
	}
	view := &service.View{Blocks: []service.Block{f, o.replicaFacts(ctx)}}
	if len(settings.Recipients) > 0 {
		view.Blocks = append(view.Blocks, &service.Text{Title: "Verify the newest backup", Body: "This server knows only the backups' public key. Run this where the private key is."},
			&service.Text{Body: verifyCommand(&settings.Settings, o.Copies.signer()), Copy: true})
	}
	return view, nil
}

// replicaFacts shows where the replica is, and the period that it can restore.
func (o *Overview) replicaFacts(ctx context.Context) *service.Facts {
	all := o.Copies.readPoints(ctx)
	f := &service.Facts{Title: "Replica", Rows: listFacts(o.Copies.points.state(), o.Copies.Replica().URL, "replica.url")}
	if n := len(all); n > 0 {
		f.Rows = append(f.Rows,
			service.Fact{Name: "Restore points", Cell: service.Cell{Text: strconv.Itoa(n), To: "restore-points"}},
			service.Fact{Name: "Oldest", Cell: service.TimeCell(all[0].Time)}, service.Fact{Name: "Newest", Cell: service.TimeCell(all[n-1].Time)},
		)
	}
	return f
}

// listFacts says where a list comes from and whether it could be read. address is a URL; "" means that the setting is
// not set.
func listFacts(s listState, address, setting string) []service.Fact {
	if address == "" {
		return []service.Fact{{Name: "Place", Cell: service.TextCell("none: " + setting + " sets one")}}
	}
	state := service.Cell{Text: "being read: reload the page in a moment"}
	switch {
	case s.Problem != "":
		state = service.Cell{State: service.Warning, Text: "the list cannot be read: " + s.Problem}
	case !s.At.IsZero():
		state = service.TimeCell(s.At)
	}
	return []service.Fact{{Name: "Place", Cell: service.TextCell(location.Name(address))}, {Name: "Listed", Cell: state}}
}

// showPoints adds to the page Restore points the command that restores the newest.
func (o *Overview) showPoints(ctx context.Context, _ *service.PageRequest) (*service.View, error) {
	view := &service.View{}
	if o.Copies.Replica().URL != "" { // otherwise the page says how to set it
		view.Blocks = append(view.Blocks, o.replicaFacts(ctx))
	}
	if all := o.Copies.readPoints(ctx); len(all) > 0 {
		s := o.Copies.Replica()
		newest := all[len(all)-1].Time.UTC().Format(time.RFC3339Nano)
		view.Blocks = append(view.Blocks, &service.Text{Title: "Restore the newest moment into a new data folder", Body: restoreCommand(&s, o.Copies.signer(), newest), Copy: true},
			&service.Text{Body: "With an earlier --time, the newest restore point before it is restored."})
	}
	return view, nil
}
