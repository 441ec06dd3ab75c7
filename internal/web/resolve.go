package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"holdfast/internal/fault"
)

// Address is where a request arrived, as its client sees it.
type Address struct {
	Origin
	Target string // path and query as the client sent them, with the public prefix
	Path   string // raw path without query and without prefix

	// Err says why the address is not known: fault.Invalid when the request
	// target is not a path, when the Host header is missing or malformed, or when
	// a trusted proxy forwards what cannot be parsed. Of the other fields only
	// Path is then set, if the request has one.
	Err error
}

// Resolver finds the public address of requests, and the address of their clients. It is safe for concurrent use.
type Resolver struct {
	public  *Origin // nil: see each request
	trusted []netip.Prefix
}

// NewResolver returns a resolver. With a public URL that is every request's
// origin. Without one, publicURL being "", it is what the Host header says, or,
// from the peers in trustedProxies (addresses or CIDRs), what their Forwarded
// or X-Forwarded-… headers say. fault.Invalid for what cannot be parsed.
func NewResolver(publicURL string, trustedProxies []string) (*Resolver, error) {
	r := &Resolver{}
	if publicURL != "" {
		o, err := ParseOrigin(publicURL)
		if err != nil {
			return nil, err
		}
		r.public = &o
	}
	for _, text := range trustedProxies {
		p, err := parsePrefix(text)
		if err != nil {
			return nil, fault.Newf(fault.Invalid, "%q must be an IP address or a network in CIDR notation", text)
		}
		r.trusted = append(r.trusted, p)
	}
	return r, nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		if err == nil && p.Addr().Is4In6() {
			err = errors.New("an IPv4 network must be in IPv4 notation") // it would match nothing
		}
		return p, err
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return ip.Unmap().Prefix(ip.Unmap().BitLen())
}

// Resolve returns where a request arrived.
func (r *Resolver) Resolve(req *http.Request) Address {
	target, ok := originForm(req.RequestURI)
	if !ok {
		return Address{Err: errPath}
	}
	o, err := r.origin(req)
	if err != nil {
		path, _, _ := strings.Cut(target, "?") // a public URL, whose prefix it could have, has no such error
		return Address{Path: path, Err: err}
	}
	public, inner := o.Map(target)
	path, _, _ := strings.Cut(inner, "?")
	return Address{Origin: o, Target: public, Path: path}
}

// originForm is path and query of a request target. A client that believes to
// be talking to a proxy sends the whole URL.
func originForm(target string) (string, bool) {
	if strings.HasPrefix(target, "/") {
		return target, true
	}
	_, rest, ok := strings.Cut(target, "://")
	if !ok {
		return "", false
	}
	i := strings.IndexAny(rest, "/?")
	switch {
	case i < 0:
		return "/", true
	case rest[i] == '?':
		return "/" + rest[i:], true
	}
	return rest[i:], true
}

func (r *Resolver) origin(req *http.Request) (Origin, error) {
	if r.public != nil {
		return *r.public, nil
	}
	seen := forwarded{host: req.Host, proto: "http"}
	if req.TLS != nil {
		seen.proto = "https"
	}
	if peer, err := netip.ParseAddrPort(req.RemoteAddr); err == nil && r.trusts(peer.Addr()) {
		if err := r.follow(&seen, req.Header); err != nil {
			return Origin{}, fault.Wrap(fault.Invalid, "a forwarding header of a proxy is malformed", err)
		}
	}
	return seen.origin()
}

func (r *Resolver) trusts(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	for _, p := range r.trusted {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// trustsNode is trusts for an address that a proxy has noted.
func (r *Resolver) trustsNode(node string) bool {
	ip, err := netip.ParseAddr(node)
	return err == nil && r.trusts(ip)
}

// forwarded is what is known of the public address of a request.
type forwarded struct {
	host  string // with or without a port
	proto string
	port  string // "" when only the host or the protocol tells it
}

func (f forwarded) origin() (Origin, error) {
	host, port, ok := splitHost(f.host)
	if !ok {
		return Origin{}, fault.New(fault.Invalid, "the Host header is missing or not valid")
	}
	scheme := strings.ToLower(f.proto)
	if scheme != "http" && scheme != "https" {
		return Origin{}, fault.New(fault.Invalid, "the protocol forwarded by a proxy must be http or https")
	}
	if port == 0 && f.port != "" {
		if port, ok = parsePort(f.port); !ok {
			return Origin{}, fault.New(fault.Invalid, "the port forwarded by a proxy is not valid")
		}
	}
	if port == 0 {
		port = defaultPort(scheme)
	}
	return Origin{Scheme: scheme, Host: host, Port: port}, nil
}

// follow replaces what the connection shows by what the trusted proxies say.
// Each has added its part at the end, so the way goes from the last entry to
// the first, as long as the entry's own sender is one of ours; what a stranger
// wrote in front of it is never read.
func (r *Resolver) follow(f *forwarded, h http.Header) error {
	if values := h.Values("Forwarded"); len(values) > 0 {
		elements, err := parseForwarded(strings.Join(values, ","))
		if err != nil {
			return fmt.Errorf("the header Forwarded: %w", err)
		}
		for _, e := range slices.Backward(elements) {
			if e.host != "" {
				f.host = e.host
			}
			if e.proto != "" {
				f.proto = e.proto
			}
			if !r.trustsNode(e.node) {
				break
			}
		}
		return nil
	}
	hops := 1
	for senders := list(h, "X-Forwarded-For"); len(senders) > 0 && r.trustsNode(senders[len(senders)-1]); hops++ {
		senders = senders[:len(senders)-1]
	}
	for name, into := range map[string]*string{
		"X-Forwarded-Host": &f.host, "X-Forwarded-Proto": &f.proto, "X-Forwarded-Port": &f.port,
	} {
		if values := list(h, name); len(values) > 0 {
			// Many proxies replace these headers instead of adding to them, so
			// there may be fewer entries than hops.
			*into = values[max(0, len(values)-hops)]
		}
	}
	return nil
}

// Client returns the address of a request's client. It believes only trusted
// proxies. ok is false when those do not say, or when Forwarded and X-Forwarded-For
// differ: a proxy that sets one of them may pass on the other as its client sent it.
// ip is then the address of a proxy.
func (r *Resolver) Client(req *http.Request) (ip netip.Addr, ok bool) {
	peer, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	ip = peer.Addr().Unmap().WithZone("")
	if !r.trusts(ip) {
		return ip, true
	}
	nodes, err := forwardedNodes(req.Header)
	if err != nil {
		return ip, false
	}
	also := list(req.Header, "X-Forwarded-For")
	if len(nodes) == 0 {
		return r.sender(ip, also)
	}
	client, ok := r.sender(ip, nodes)
	if len(also) > 0 {
		if second, known := r.sender(ip, also); !known || second != client {
			return ip, false
		}
	}
	return client, ok
}

// sender is the address that sent a request to the first trusted proxy. nodes are
// the addresses that proxies have noted, the nearest last.
func (r *Resolver) sender(proxy netip.Addr, nodes []string) (ip netip.Addr, ok bool) {
	ip = proxy
	for _, node := range slices.Backward(nodes) {
		sender, err := netip.ParseAddr(node)
		if err != nil {
			return ip, false
		}
		if ip = sender.Unmap().WithZone(""); !r.trusts(ip) {
			break
		}
	}
	return ip, true
}

// Network names where a request came from: the address of its client or, as one
// client may have all addresses of it, an IPv6 network of 64 bits. Where only a proxy
// is known it is that one.
func (r *Resolver) Network(req *http.Request) string {
	ip, _ := r.Client(req)
	switch {
	case !ip.IsValid():
		return req.RemoteAddr
	case ip.Is4():
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}

// forwardedNodes are the addresses in the header Forwarded; none when it has other
// parameters only.
func forwardedNodes(h http.Header) (nodes []string, err error) {
	elements, err := parseForwarded(strings.Join(h.Values("Forwarded"), ","))
	if err != nil {
		return nil, err
	}
	named := false
	for _, e := range elements {
		nodes = append(nodes, e.node)
		named = named || e.node != ""
	}
	if !named {
		return nil, nil
	}
	return nodes, nil
}

// list is the entries of a header that is a list, over all of its lines.
func list(h http.Header, name string) []string {
	lines := h.Values(name)
	if len(lines) == 0 {
		return nil
	}
	entries := strings.Split(strings.Join(lines, ","), ",")
	for i, e := range entries {
		entries[i] = strings.TrimSpace(e)
	}
	return entries
}
