package tokenserver

import (
	"context"
	"fmt"
	"net/http"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
	"holdfast/internal/tokenserver"
)

// nodeOperations declares the storage nodes. There is no operation that removes a node: its accounts would lose their
// data.
func (s *Accounts) nodeOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "nodes", Doc: "List the storage nodes", Title: "Storage nodes", Empty: "There are no nodes.",
			Group: "Manage the storage nodes that accounts are assigned to",
		}, s.listNodes),
		operate.NewChange(operate.About{
			Path: "nodes/add", Doc: "Add a storage node for new accounts", NewRow: true, Title: "Add a storage node", Text: "New accounts use the node at once.",
			More: "NODE is its server.public_url. New accounts use the node at once, so the command first asks\n" +
				"NODE/__heartbeat__ whether a storage server is there.",
			Example: "https://sync2.example.org --capacity 5000\n",
		}, s.addNode),
		operate.NewChange(operate.About{
			Path: "nodes/drain", Doc: "Assign no new accounts to a storage node; its accounts stay", Example: "https://sync2.example.org\n",
		}, s.drainNode(true)),
		operate.NewChange(operate.About{
			Path: "nodes/undo", Doc: "Assign new accounts to a drained storage node again",
		}, s.drainNode(false)),
	}
}

// nodeInput names a node by its URL, as browsers get it.
type nodeInput struct {
	Node string `subject:"node" doc:"node URL, its server.public_url" example:"https://sync2.example.org"`
}

// nodeOutput is a storage node. Load and State repeat other members for people.
type nodeOutput struct {
	ID        int64     `json:"id"`
	URL       string    `json:"node" title:"Node" subject:"node" example:"https://sync2.example.org"`
	Load      nodeLoad  `json:"-" title:"Load"`
	Accounts  int64     `json:"accounts" least:"0"`
	Capacity  int64     `json:"capacity" least:"0" doc:"maximum number of accounts"`
	Available int64     `json:"available" title:"Available" doc:"accounts that fit before more capacity is released"`
	State     nodeState `json:"-" title:"State"`
	Down      bool      `json:"down" doc:"out of service, gets no new accounts"`
	Drained   bool      `json:"drained" doc:"gets no new accounts"`

	notice string
}

// nodeLoad shows how full a node is.
type nodeLoad struct{ accounts, capacity int64 }

func (l nodeLoad) String() string { return fmt.Sprintf("%d of %d accounts", l.accounts, l.capacity) }

func (l nodeLoad) Cell() service.Cell {
	return service.Cell{Text: l.String(), Share: float64(l.accounts), Most: float64(l.capacity)}
}

// nodeState shows whether a node gets new accounts. Mozilla's tables call drained nodes backoff.
type nodeState struct{ down, drained bool }

func (n nodeState) String() string { return n.Cell().Text }

// Cell shows down before drained: a node that is down is not used for cleanup either.
func (n nodeState) Cell() service.Cell {
	switch {
	case n.down:
		return service.Cell{State: service.Wrong, Text: "down"}
	case n.drained:
		return service.Cell{State: service.Warning, Text: "drained"}
	}
	return service.Cell{State: service.OK, Text: "gets new accounts"}
}

// outputOfNode converts a node; notice continues "node URL" and is only shown after a change.
func outputOfNode(n tokenserver.Node, notice string) nodeOutput {
	return nodeOutput{
		ID: n.ID, URL: n.URL, Load: nodeLoad{n.Load, n.Capacity}, Accounts: n.Load, Capacity: n.Capacity, Available: n.Available,
		State: nodeState{n.Downed, n.Backoff}, Down: n.Downed, Drained: n.Backoff, notice: notice,
	}
}

func (n nodeOutput) Notice() string { return "node " + n.URL + " " + n.notice }

// Offers undo for drained nodes, and drain for the others.
func (n nodeOutput) Offers(verb string) bool { return n.Drained == (verb == "undo") }

// listNodes returns all nodes, by ID.
func (s *Accounts) listNodes(ctx context.Context, _ operate.None) (all []nodeOutput, err error) {
	open, err := s.ready()
	if err != nil {
		return nil, err
	}
	nodes, err := open.ListNodes(ctx)
	for _, n := range nodes {
		all = append(all, outputOfNode(n, ""))
	}
	return all, err
}

type addNodeInput struct {
	nodeInput
	Capacity int64 `flag:"capacity" doc:"maximum number of accounts" default:"100000" least:"1"`
	NoCheck  bool  `flag:"no-check" doc:"add a node that is unreachable or not running yet"`
}

// addNode adds a node that accounts are assigned to at once. Unless NoCheck is set, the node must answer first;
// tokenserver.Self, which stands for this server, is not asked.
func (s *Accounts) addNode(ctx context.Context, in addNodeInput) (added nodeOutput, err error) {
	open, err := s.ready()
	if err != nil {
		return added, err
	}
	node, err := tokenserver.NewNode(in.Node, in.Capacity)
	if err != nil {
		return added, err
	}
	if node.URL != tokenserver.Self && !in.NoCheck {
		if err := checkHeartbeat(ctx, node.URL); err != nil {
			return added, err
		}
	}
	node, err = open.AddNode(ctx, in.Node, in.Capacity)
	return outputOfNode(node, fmt.Sprintf("gets new accounts, up to %d", node.Capacity)), err
}

// checkHeartbeat returns errcode.Conflict with advice unless a storage server answers 200 at the URL.
func checkHeartbeat(ctx context.Context, url string) error {
	address := url + "/__heartbeat__"
	status, err := service.Fetch(ctx, address)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s answers %d, not 200", address, status)
	}
	if err != nil {
		return errcode.Newf(errcode.Conflict, "%v: correct the URL, start the node, or add it with --no-check; nothing was added", err)
	}
	return nil
}

// drainNode returns the function that drains a node, or undoes it. Accounts that are assigned to the node stay.
func (s *Accounts) drainNode(drained bool) func(context.Context, nodeInput) (nodeOutput, error) {
	return func(ctx context.Context, in nodeInput) (nodeOutput, error) {
		open, err := s.ready()
		if err != nil {
			return nodeOutput{}, err
		}
		notice := "gets new accounts again"
		if drained {
			notice = "gets no new accounts"
		}
		node, err := open.SetNode(ctx, in.Node, tokenserver.NodeChange{Backoff: &drained})
		return outputOfNode(node, notice), err
	}
}
