package spanner_test

import (
	"context"
	"path"
	"sync"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"holdfast/internal/db/spannerdb"
)

type wire struct {
	mu    sync.Mutex
	calls []*call

	// refuse, if set, is called before a response message is sent. Its error replaces the response.
	refuse func(method string) error
}

type call struct {
	method  string // e.g. ExecuteStreamingSql or Commit
	leader  bool   // routed to the leader
	request any    // *sppb.…Request
	answer  any    // nil for a stream
}

func (w *wire) tap(opts spannerdb.Options) spannerdb.Options {
	opts.Client = append(opts.Client,
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(w.unary)),
		option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(w.stream)))
	return opts
}

// taken returns the calls since its last call.
func (w *wire) taken() []*call {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = nil
	return calls
}

func (w *wire) note(ctx context.Context, method string) *call {
	md, _ := metadata.FromOutgoingContext(ctx)
	leader := md.Get("x-goog-spanner-route-to-leader")
	c := &call{method: path.Base(method), leader: len(leader) == 1 && leader[0] == "true"}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, c)
	return c
}

func (w *wire) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	c := w.note(ctx, method)
	c.request, c.answer = req, reply
	if w.refuse != nil {
		if err := w.refuse(c.method); err != nil {
			return err
		}
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (w *wire) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	c := w.note(ctx, method)
	s, err := open(ctx, desc, cc, method, opts...)
	return &sent{s, c}, err
}

type sent struct {
	grpc.ClientStream
	call *call
}

func (s *sent) SendMsg(m any) error {
	s.call.request = m
	return s.ClientStream.SendMsg(m)
}

func methods(calls []*call) []string {
	names := make([]string, len(calls))
	for i, c := range calls {
		names[i] = c.method
	}
	return names
}

func (c *call) transaction() *sppb.TransactionSelector {
	r, _ := c.request.(interface {
		GetTransaction() *sppb.TransactionSelector
	})
	if r == nil {
		return nil
	}
	return r.GetTransaction()
}
