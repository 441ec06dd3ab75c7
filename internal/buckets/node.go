package buckets

import (
	"cmp"
	"context"
	"strings"
	"sync"

	"holdfast/internal/errcode"
)

// Node is a storage node.
type Node struct {
	ID    string // "datacenter:storage_id"
	URL   string // of its driver, such as file:///srv/holdfast
	State NodeState
	Added Moment
}

// NodeState says what a node is used for.
type NodeState string

// The states of a node.
const (
	NodeActive   NodeState = "active"
	NodeReadOnly NodeState = "read-only" // gets no new bodies
	NodeDraining NodeState = "draining"  // gets no new bodies, and those it has are moved
	NodeRemoving NodeState = "removing"  // is being removed, if no body is on it
	NodeRemoved  NodeState = "removed"   // is not used any more; the configuration may still have it
)

// NodeService changes the storage nodes. A process has one.
type NodeService struct {
	store Nodes

	// removing lets a process remove one node at a time: two calls at once could each take back the state that the
	// other relies on.
	removing sync.Mutex
}

// NewNodeService returns a service.
func NewNodeService(st Nodes) *NodeService { return &NodeService{store: st} }

// Nodes is Nodes.Nodes.
func (s *NodeService) Nodes(ctx context.Context) ([]Node, error) { return s.store.Nodes(ctx) }

// SetNode is Nodes.SetNode.
func (s *NodeService) SetNode(ctx context.Context, n Node) error { return s.store.SetNode(ctx, n) }

// RemoveNode gives a node that no object, part or garbage is on the state NodeRemoved. If a body is on it, the node keeps
// its state, and the error is ErrNodeInUse. A node that is unknown or removed stays so.
func (s *NodeService) RemoveNode(ctx context.Context, id string) error {
	s.removing.Lock()
	defer s.removing.Unlock()
	was, err := s.store.ChangeNode(ctx, id, []NodeState{NodeActive, NodeReadOnly, NodeDraining, NodeRemoving}, NodeRemoving)
	if err != nil || was == "" || was == NodeRemoved {
		return err
	}
	if was == NodeRemoving { // by a process that was killed
		was = NodeDraining
	}
	to := NodeRemoved
	used := s.store.CheckUnused(ctx, id)
	if used != nil {
		to = was
	}
	_, err = s.store.ChangeNode(context.WithoutCancel(ctx), id, []NodeState{NodeRemoving}, to) // unless another process has set it
	return cmp.Or(used, err)
}

// Datacenter returns the part of a node's ID before the colon.
func Datacenter(id string) string {
	dc, _, _ := strings.Cut(id, ":")
	return dc
}

// CheckNodeID rejects IDs that are not "datacenter:storage_id", each with 1 to 128 of
// a-z, A-Z, 0-9, ".", "_" and "-".
func CheckNodeID(id string) error {
	dc, storage, ok := strings.Cut(id, ":")
	if !ok || !isNodeName(dc) || !isNodeName(storage) {
		return ErrNodeID
	}
	return nil
}

func isNodeName(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// Errors of storage nodes.
var (
	ErrNodeID      = errcode.New(errcode.Invalid, `a storage node is named DATACENTER:NAME, such as home:disk1, each of a-z, A-Z, 0-9, ".", "_" and "-"`)
	ErrNodeRemoved = errcode.New(errcode.Unavailable, "a storage node of the body was removed meanwhile; retry")
	ErrNodeInUse   = errcode.New(errcode.Conflict, "the storage node has bodies: drain it first")
)

// ErrNotEnoughSpace means that no storage node has space for a body.
var ErrNotEnoughSpace = errcode.New(errcode.Unavailable, "no storage node has enough free space")

// ErrNodeURL means that no driver has the URL.
var ErrNodeURL = errcode.New(errcode.Invalid, "the URL of a storage node is file:///PATH, s3://BUCKET, gs://BUCKET or azblob://CONTAINER")
