package buckets

import (
	"context"
	"strings"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	"holdfast/internal/operate"
)

// damageOperations lists the copies that reads, the scrubber or an audit found to be bad.
func (s *Buckets) damageOperations() []operate.Operation {
	return []operate.Operation{operate.NewList(operate.About{
		Access: operate.ForViewers, Path: "damages", Doc: "List damaged body copies", Title: "Damaged copies", Empty: "No damaged copies are known.",
		Group: "Show damaged body copies, which servers repair",
		Text: "A copy is damaged if it is missing or its checksum is wrong. Reads use other copies, and servers rewrite it from a good copy. Without a good copy the object cannot be read: " +
			"restore it from a backup, or delete it.",
	}, on(s, s.listDamages))}
}

// damageState shows whether a copy can be repaired.
type damageState buckets.DamageState

func (d damageState) String() string {
	if d == damageState(buckets.Lost) {
		return "no good copy is left"
	}
	return "to be repaired"
}

// Cell warns about a copy that a server repairs, because the object can be read meanwhile.
func (d damageState) Cell() service.Cell {
	if d == damageState(buckets.Lost) {
		return service.Cell{State: service.Wrong, Text: d.String()}
	}
	return service.Cell{State: service.Warning, Text: d.String()}
}

// damageOutput is a bad copy. Found is when it was first seen; Next is missing if no attempt is planned.
type damageOutput struct {
	Object   string      `json:"object" title:"Object" doc:"account, bucket, object and body ID, or the path of the copy" example:"main/photos/cat.jpg (body 0a4ccfd6-51ad-4b4e-8fd0-0e1f5b8c8a11)"`
	Node     string      `json:"node" title:"Node" example:"home:disk1"`
	Path     string      `json:"path" doc:"path of the copy on the node"`
	Problem  string      `json:"problem" title:"Problem" example:"corrupt"`
	State    damageState `json:"state" title:"State" enum:"damaged,lost"`
	Found    time.Time   `json:"found" title:"Found"`
	Attempts int         `json:"attempts" title:"Attempts" least:"0" doc:"repair attempts"`
	Next     time.Time   `json:"next,omitzero" title:"Next attempt"`
	Reason   string      `json:"reason,omitempty" title:"Reason" doc:"why the last attempt failed"`
	At       string      `json:"-" cursor:""`
}

// listDamages orders by node and path. A position is the two, separated by a space.
func (s *Buckets) listDamages(ctx context.Context, in operate.Page[string]) (all []damageOutput, err error) {
	q := buckets.DamageQuery{Limit: in.Limit}
	q.After.Node, q.After.Path, _ = strings.Cut(in.After, " ")
	cache := &nameCache{service: s.opened, accounts: map[buckets.AccountID]*accountNames{}}
	for d, err := range s.maintenance.Damages(ctx, q) {
		if err != nil {
			return nil, err
		}
		name, err := cache.damaged(ctx, &d)
		if err != nil {
			return nil, err
		}
		all = append(all, damageOutput{
			name, d.Node, d.Path, d.Problem, damageState(d.State), d.FirstSeen.Time(), d.Attempts, service.TimeOf(d.Next), d.Error, d.Node + " " + d.Path,
		})
		if len(all) == in.Limit {
			break
		}
	}
	return all, nil
}
