package buckets

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/blobs"
	"holdfast/internal/buckets/maintenance"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

// drainOperation declares nodes/drain, a job that may take hours.
func (s *Buckets) drainOperation() operate.Operation {
	return operate.NewJob(operate.About{
		Path: "nodes/drain", Doc: "Move all bodies off a storage node and remove it", Background: true, Begun: "drain started", Stop: "Stop the drain",
		Ask: "All bodies on the node are copied to other nodes, and then the node is removed. A drain that is stopped continues when it is started again.",
		More: "Bodies move to other nodes while servers run. They are copied from any good copy, so the node itself may be\n" +
			"gone. If the command is interrupted, the node stays draining and gets no new bodies: run the command again\n" +
			"to continue, or end the drain with nodes add.\n\n" +
			"A body without a good copy stays, and so does the node; the exit status is then 1. A drain waits for a running\n" +
			"backup. If the node is in the configuration, remove it there afterwards.",
	}, onNodes(s, s.drain))
}

// drainInput names a node, which may be unreachable.
type drainInput struct {
	Node        string `subject:"node" doc:"node name: DATACENTER:NAME"`
	Keep        bool   `flag:"keep" doc:"keep the emptied node, marked as draining"`
	FewerCopies bool   `flag:"fewer-copies" doc:"accept a missing copy where no other node has space"`
}

// drainOutput is the result. Failed bodies include those without space on another node (NoSpace); Reasons are sentences
// for people.
type drainOutput struct {
	Node    string   `json:"node" subject:"node"`
	Moved   int64    `json:"moved" title:"Moved bodies"`
	Dropped int64    `json:"dropped" title:"Copies that were not needed"`
	Stray   int64    `json:"stray" title:"Files that could not be removed from the node"`
	Failed  int64    `json:"failed" title:"Bodies that are still on the node"`
	NoSpace int64    `json:"noSpace" title:"Bodies without space on another active node"`
	Reasons []string `json:"reasons"`
	Removed bool     `json:"removed"`

	// url is for the command that ends the drain; isConfigured says that the configuration still contains the node.
	url          string
	isConfigured bool
}

// IsPartial reports that bodies remain, so that the node was not removed.
func (d drainOutput) IsPartial() bool { return d.Failed > 0 }

// Notice has a line for each count that is not 0.
func (d drainOutput) Notice() string {
	lines := []string{fmt.Sprintf("moved bodies: %d; copies that were not needed: %d", d.Moved, d.Dropped)}
	add := func(is bool, text string) {
		if is {
			lines = append(lines, text)
		}
	}
	add(d.Stray > 0, fmt.Sprintf("files that could not be removed from the node: %d", d.Stray))
	add(d.Failed == 0 && !d.Removed, fmt.Sprintf("storage node %s is empty", d.Node))
	add(d.Removed, fmt.Sprintf("storage node %s is removed", d.Node))
	add(d.Removed && d.isConfigured, "remove it from buckets.nodes in the configuration too")
	return strings.Join(lines, "\n")
}

// Note says why bodies remain, and how to continue or to end the drain.
func (d drainOutput) Note() string {
	if d.Failed == 0 {
		return ""
	}
	var lines []string
	for _, reason := range d.Reasons {
		lines = append(lines, "not moved: "+reason)
	}
	if d.NoSpace > 0 {
		lines = append(lines, fmt.Sprintf("%d bodies fit on no other active node. Add a node, or accept a missing copy with --fewer-copies", d.NoSpace))
	}
	return strings.Join(append(lines, fmt.Sprintf("bodies left on storage node %s: %d. It stays draining: run the command again, or end the drain with holdfast buckets nodes add %s %s",
		d.Node, d.Failed, d.Node, d.url)), "\n")
}

// drain moves the bodies and removes the node. A node that is draining already continues. It needs another active node.
func (s *Buckets) drain(ctx context.Context, in drainInput, progress operate.Progress) (o drainOutput, err error) {
	n, ok, err := s.knownNode(ctx, in.Node)
	switch {
	case err != nil:
		return o, err
	case !ok:
		return o, errcode.Newf(errcode.NotFound, "there is no storage node %s: holdfast buckets nodes list shows all", in.Node)
	}
	others := slices.DeleteFunc(s.cluster.Nodes(), func(s blobs.Status) bool { return s.ID == in.Node || s.State != buckets.NodeActive })
	if len(others) == 0 {
		return o, errcode.New(errcode.Conflict, "there is no other active storage node: add one first")
	}
	var d maintenance.Drained
	err = s.maintain(ctx, progress, func(ctx context.Context, p maintenance.Progress) (err error) {
		d, err = s.maintenance.Drain(ctx, p, n, maintenance.DrainOptions{Keep: in.Keep, FewerCopies: in.FewerCopies})
		return err
	})
	switch {
	case ctx.Err() != nil:
		return o, fmt.Errorf("interrupted: run the command again to continue, or end the drain with holdfast buckets nodes add %s %s", n.ID, n.URL)
	case err != nil:
		return o, err
	}
	_, isConfigured := s.cfg.Nodes[n.ID]
	return drainOutput{n.ID, d.Moved, d.Dropped, d.Stray, d.Failed, d.NoSpace, append([]string{}, d.Reasons...), d.Removed, n.URL, isConfigured}, nil
}
