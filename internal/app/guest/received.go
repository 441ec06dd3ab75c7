package guest

import (
	"context"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/operate"
)

// quarantineOperations lists received events that had no effect. An operator corrects the sender, which sends a new
// event.
func (s *Guest) quarantineOperations() []operate.Operation {
	return []operate.Operation{operate.NewList(operate.About{
		Access: operate.ForViewers, Path: "quarantine", Rows: "events", Limit: 100,
		Doc:   "List received events without effect: not understood, or with a repeated ID",
		Group: "Show received events without effect", Title: "Quarantine", Empty: "All received events took effect.",
		Text: "Received events without effect: not understood, or with a repeated ID. Newest first.",
	}, s.listQuarantine)}
}

// quarantineOutput is a received event. At is the sender's time; Body is as received, and may not be JSON.
type quarantineOutput struct {
	Source   string    `json:"source" title:"Source" example:"/tenants"`
	ID       string    `json:"id" title:"ID" example:"1"`
	Type     string    `json:"type" title:"Type" example:"tenant.renamed.v1"`
	At       time.Time `json:"at" title:"Time"`
	Received time.Time `json:"received" title:"Received"`
	Reason   string    `json:"reason" title:"Reason" example:"unknown type"`
	Body     string    `json:"body"`
}

// listQuarantine returns the latest events.
func (s *Guest) listQuarantine(ctx context.Context, in operate.Latest) (all []quarantineOutput, err error) {
	p, err := s.parts()
	if err != nil {
		return nil, err
	}
	events, err := p.tenants.Quarantined(ctx, in.Limit)
	for i := range events {
		q := &events[i]
		all = append(all, quarantineOutput{q.Source, q.ID, q.Type, q.Time, q.Received, q.Reason, string(q.Body)})
	}
	return all, err
}

// refusalOperations lists handoffs that were consumed more than once, which may be an attack or a faulty booking site.
func (s *Guest) refusalOperations() []operate.Operation {
	return []operate.Operation{operate.NewList(operate.About{
		Access: operate.ForViewers, Path: "refusals", Limit: 100,
		Doc:   "List repeatedly consumed handoffs, with the number of refused attempts",
		Group: "Show refused attempts to consume handoffs", Title: "Refused handoffs", Empty: "No handoff was consumed twice.",
		Text: "Handoffs with refused attempts to consume them. Latest attempt first.",
	}, s.listRefusals)}
}

// refusalOutput counts the refused attempts for a handoff and a reason.
type refusalOutput struct {
	Handoff  guest.ID  `json:"handoffId" title:"Handoff" example:"bhd_01KB2Q4Y7N5M3K2H1G0F9E8D7B"`
	Reason   string    `json:"reason" title:"Reason" doc:"handoff-consumed: consumed by another attempt" example:"handoff-consumed"`
	Attempts int64     `json:"attempts" title:"Attempts" least:"1"`
	First    time.Time `json:"firstAt" title:"First"`
	Last     time.Time `json:"lastAt" title:"Last"`
}

// listRefusals returns the latest attempts first. Servers write the counts with a delay.
func (s *Guest) listRefusals(ctx context.Context, in operate.Latest) (all []refusalOutput, err error) {
	p, err := s.parts()
	if err != nil {
		return nil, err
	}
	found, err := p.handoffs.Refusals(ctx, in.Limit)
	for _, r := range found {
		all = append(all, refusalOutput{r.Handoff, r.Reason, r.Attempts, r.First, r.Last})
	}
	return all, err
}
