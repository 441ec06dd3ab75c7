package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"holdfast/internal/errcode"
)

// Address is a request's address from the client's perspective.
type Address struct {
	Origin
	Target string // path and query as sent, with the public prefix
	Path   string // raw path without query and prefix

	// Err is errcode.Invalid for an invalid request target, Host header or trusted proxy's forwarding header. No field
	// except Path is set then.
	Err error
}

// Resolver determines requests' public addresses and clients. It is safe for concurrent use.
type Resolver struct {
	public  *Origin // if nil, the origin depends on the request
	trusted atomic.Pointer[[]netip.Prefix]
}

// NewResolver returns a resolver. A non-empty publicURL is every request's origin. Otherwise the origin comes from
// the Host header or, for trustedProxies (addresses or CIDRs), from Forwarded or X-Forwarded-… headers. The error is
// errcode.Invalid.
func NewResolver(publicURL string, trustedProxies []string) (*Resolver, error) {
	r := &Resolver{}
	if publicURL != "" {
		o, err := ParseOrigin(publicURL)
		if err != nil {
			return nil, err
		}
		r.public = &o
	}
	return r, r.Trust(trustedProxies)
}

// Trust replaces the trusted proxies. If a proxy is malformed, it changes nothing.
func (r *Resolver) Trust(proxies []string) error {
	var trusted []netip.Prefix
	for _, text := range proxies {
		p, err := parsePrefix(text)
		if err != nil {
			return errcode.Newf(errcode.Invalid, "%q must be an IP address or a network in CIDR notation", text)
		}
		trusted = append(trusted, p)
	}
	r.trusted.Store(&trusted)
	return nil
}

// parsePrefix parses an address or a network in CIDR notation.
func parsePrefix(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		if err == nil && p.Addr().Is4In6() {
			err = errors.New("an IPv4 network must be in IPv4 notation")
		}
		return p, err
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return ip.Unmap().Prefix(ip.Unmap().BitLen())
}

// Resolve determines a request's public address. It never fails: the handler refuses requests with Address.Err.
func (r *Resolver) Resolve(req *http.Request) Address {
	target, ok := originForm(req.RequestURI)
	if !ok {
		return Address{Err: errPath}
	}
	o, err := r.origin(req)
	if err != nil {
		path, _, _ := strings.Cut(target, "?") // without a prefix: only a public URL has one, and then origin returns no error
		return Address{Path: path, Err: err}
	}
	public, inner := o.Map(target)
	path, _, _ := strings.Cut(inner, "?")
	return Address{Origin: o, Target: public, Path: path}
}

// originForm returns a target's path and query. A client that takes the server for a proxy sends a whole URL.
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

// origin returns the public URL's origin, or else the request's.
func (r *Resolver) origin(req *http.Request) (Origin, error) {
	if r.public != nil {
		return *r.public, nil
	}
	seen := forwarded{host: req.Host, proto: "http"}
	if req.TLS != nil {
		seen.proto = "https"
	}
	if peer, err := netip.ParseAddrPort(req.RemoteAddr); err == nil && r.Trusts(peer.Addr()) {
		if err := r.follow(&seen, req.Header); err != nil {
			return Origin{}, errcode.Wrap(errcode.Invalid, "a proxy's forwarding header is malformed", err)
		}
	}
	return seen.origin()
}

// Trusts reports whether an address is a trusted proxy.
func (r *Resolver) Trusts(ip netip.Addr) bool {
	trusted := r.trusted.Load()
	ip = ip.Unmap().WithZone("")
	return trusted != nil && slices.ContainsFunc(*trusted, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// trustsNode is Trusts for a text; anything but an address is not trusted.
func (r *Resolver) trustsNode(node string) bool {
	ip, err := netip.ParseAddr(node)
	return err == nil && r.Trusts(ip)
}

// forwarded is a request's origin as the Host header or proxies describe it.
type forwarded struct {
	host  string // with or without a port
	proto string
	port  string // "" if implied by host or protocol
}

// origin checks the values.
func (f forwarded) origin() (Origin, error) {
	host, port, ok := splitHost(f.host)
	if !ok {
		return Origin{}, errcode.New(errcode.Invalid, "the Host header is missing or not valid")
	}
	scheme := strings.ToLower(f.proto)
	if scheme != "http" && scheme != "https" {
		return Origin{}, errcode.New(errcode.Invalid, "the protocol forwarded by a proxy must be http or https")
	}
	if port == 0 && f.port != "" {
		if port, ok = parsePort(f.port); !ok {
			return Origin{}, errcode.New(errcode.Invalid, "the port forwarded by a proxy is not valid")
		}
	}
	if port == 0 {
		port = defaultPort(scheme)
	}
	return Origin{Scheme: scheme, Host: host, Port: port}, nil
}

// follow applies the forwarding headers. Each proxy appends its entry, so follow reads backwards while the sender is
// a trusted proxy; anybody may have written earlier entries.
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
			// Many proxies replace these headers instead of appending, so there may be fewer entries than hops.
			*into = values[max(0, len(values)-hops)]
		}
	}
	return nil
}

// Client returns the client's address, trusting only the headers of trusted proxies. ok is false, and ip is the
// address of a proxy, if these headers do not contain the client's address, or if Forwarded and X-Forwarded-For
// differ: a proxy that sets one of them may pass on the other header from the client.
func (r *Resolver) Client(req *http.Request) (ip netip.Addr, ok bool) {
	peer, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	ip = peer.Addr().Unmap().WithZone("")
	if !r.Trusts(ip) {
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

// sender returns the client's address in a forwarding header's nodes, the nearest node last.
func (r *Resolver) sender(proxy netip.Addr, nodes []string) (ip netip.Addr, ok bool) {
	ip = proxy
	for _, node := range slices.Backward(nodes) {
		sender, err := netip.ParseAddr(node)
		if err != nil {
			return ip, false
		}
		if ip = sender.Unmap().WithZone(""); !r.Trusts(ip) {
			break
		}
	}
	return ip, true
}

// Address returns the client's address as text. For a request without one it is the source that Network names.
func (r *Resolver) Address(req *http.Request) string {
	if ip, _ := r.Client(req); ip.IsValid() {
		return ip.String()
	}
	return r.Network(req)
}

// Network names a request's source: the client's address, or for IPv6 its /64 network, which one client may own.
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

// forwardedNodes returns the nodes in the Forwarded header, or nil if it names none.
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

// list returns a header's comma-separated entries.
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
