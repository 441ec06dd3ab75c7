// Package desync has HTTP/1 requests whose end two implementations may see in different places (RFC 9112, section 11.2).
package desync

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Case is a request with which a client may hide a second one from a proxy.
type Case struct {
	Name string
	// Text contains @PATH and @HOST. A request for @SECOND follows, or is inside the body.
	Text string
	// Status is the answer to the request: 0 for the handler's, BodyRefused if the header is right and the body is not.
	Status int
	// Second is whether the second request is answered, too. It is if the first one is right.
	Second bool
}

// BodyRefused is the Status of a request whose body is malformed. The handler reports it, unless it answers before it
// reads the body. The connection ends in both cases.
const BodyRefused = -1

// Wire returns the bytes to send.
func (d *Case) Wire(path, host, second string) string {
	return strings.NewReplacer("@PATH", path, "@HOST", host, "@SECOND", second).Replace(d.Text)
}

// answerTime is how long an answer may take.
const answerTime = 20 * time.Second

// Exchange sends text, and returns the answers' statuses until the connection ends, or until there are two.
func Exchange(conn net.Conn, text io.Reader) (statuses []int) {
	defer conn.Close()
	go func() { _, _ = io.Copy(conn, text) }() // the server may stop reading
	_ = conn.SetReadDeadline(time.Now().Add(answerTime))
	r := bufio.NewReader(conn)
	for len(statuses) < 2 {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			break
		}
		_, _ = io.Copy(io.Discard, res.Body)
		statuses = append(statuses, res.StatusCode)
		if half, ok := conn.(interface{ CloseWrite() error }); ok && res.Close {
			_ = half.CloseWrite() // the server does not wait for more
		}
	}
	return statuses
}

const secondRequest = "GET @SECOND HTTP/1.1\r\nHost: @HOST\r\n\r\n"

// Cases returns the known kinds of such requests, and some that are right.
func Cases() []Case {
	var all cases
	all.lengths()
	all.codings()
	all.lines()
	all.bodies()
	all.right()
	return all
}

type cases []Case

// These are statuses.
const (
	refused = http.StatusBadRequest
	unknown = http.StatusNotImplemented
	tooMany = http.StatusRequestHeaderFieldsTooLarge
	served  = 0
)

const chunks = "5\r\nhello\r\n0\r\n\r\n"

// add adds a PUT, unless head has another request line.
func (all *cases) add(status int, name, head, body string) {
	if !strings.HasPrefix(head, "PUT") && !strings.HasPrefix(head, "GET") {
		head = "PUT @PATH HTTP/1.1\r\nHost: @HOST\r\n" + head
	}
	*all = append(*all, Case{Name: name, Text: head + "\r\n" + body + secondRequest, Status: status, Second: status == served})
}

func (all *cases) chunked(status int, name, body string) {
	all.add(status, name, "Transfer-Encoding: chunked\r\n", body)
}

// fields returns a header line for each value.
func fields(name string, values []string) string {
	return name + ": " + strings.Join(values, "\r\n"+name+": ") + "\r\n"
}

// lengths are requests with a wrong Content-Length, or with both it and Transfer-Encoding (RFC 9112, sections 6.1 to 6.3).
func (all *cases) lengths() {
	all.add(refused, "CL.TE", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")
	all.add(refused, "TE.CL", "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", chunks)
	all.add(refused, "CL.TE, no length", "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", chunks)
	all.add(refused, "CL.TE, names in other case", "CONTENT-LENGTH: 5\r\ntransfer-encoding: Chunked\r\n", "0\r\n\r\n")
	all.add(refused, "CL.TE, another field between", "Content-Length: 5\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")
	all.add(refused, "CL.TE in a GET", "GET @PATH HTTP/1.1\r\nHost: @HOST\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")
	all.add(refused, "TE in HTTP/1.0", "PUT @PATH HTTP/1.0\r\nHost: @HOST\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n", chunks)
	all.add(refused, "TE in HTTP/0.9", "PUT @PATH HTTP/0.9\r\nHost: @HOST\r\nTransfer-Encoding: chunked\r\n", chunks)
	all.add(refused, "TE and CL in HTTP/1.0", "PUT @PATH HTTP/1.0\r\nHost: @HOST\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n", chunks)
	for name, lengths := range map[string][]string{
		"differ": {"5", "6"}, "the same": {"5", "5"}, "in a list": {"5, 5"}, "differ in a list": {"5, 6"}, "plus": {"+5"}, "minus": {"-5"}, "two numbers": {"5 5"},
		"hexadecimal": {"0x5"}, "hexadecimal digits": {"a"}, "empty": {""}, "a space": {" "}, "tab": {"\t5"}, "tab after": {"5\t"}, "underscore": {"1_0"}, "fraction": {"5.0"},
		"quoted": {`"5"`}, "overflow": {"18446744073709551621"}, "more than 63 bits": {"9223372036854775808"}, "many zeros": {strings.Repeat("0", 60) + "5"},
		"comma": {"5,"}, "vertical tab": {"\v5"}, "NUL": {"5\x00"}, "exponent": {"5e0"}, "long": {strings.Repeat(" ", 600) + "5"},
	} {
		all.add(refused, "Content-Length: "+name, fields("Content-Length", lengths), "hello")
	}
}

// codings are requests with another Transfer-Encoding than chunked.
func (all *cases) codings() {
	for name, codings := range map[string][]string{
		"twice": {"chunked", "chunked"}, "and another": {"chunked", "identity"}, "in a list": {"chunked, chunked"}, "after another": {"gzip, chunked"}, "with a parameter": {"chunked;a=b"},
		"quoted": {`"chunked"`}, "vertical tab": {"\vchunked"}, "tab": {"\tchunked"}, "two spaces": {"  chunked"}, "space after": {"chunked "}, "tab after": {"chunked\t"}, "no-break space": {"chunked\xa0"},
		"nothing": {""}, "comma": {",chunked"}, "comma after": {"chunked,"}, "NUL": {"chunked\x00"}, "more": {"xchunked"}, "more after": {"chunkedx"}, "form feed": {"\fchunked"},
	} {
		all.add(refused, "Transfer-Encoding: chunked "+name, fields("Transfer-Encoding", codings), chunks)
	}
	all.add(refused, "Transfer-Encoding, names in other case", "Transfer-Encoding: chunked\r\nTRANSFER-ENCODING: chunked\r\n", chunks)
	for _, coding := range []string{"identity", "gzip", "cow", "chun ked"} {
		all.add(unknown, "Transfer-Encoding: unknown "+coding, "Transfer-Encoding: "+coding+"\r\n", chunks)
	}
}

// lines are requests with wrong ends of lines, or wrong names of fields (RFC 9112, sections 2.2, 5.1 and 5.2).
func (all *cases) lines() {
	all.add(refused, "space before a colon", "Transfer-Encoding : chunked\r\n", chunks)
	all.add(refused, "space before a colon, with a length", "Content-Length: 15\r\nTransfer-Encoding : chunked\r\n", chunks)
	all.add(refused, "tab before a colon", "Content-Length\t: 5\r\n", "hello")
	all.add(refused, "space before a name", "PUT @PATH HTTP/1.1\r\nHost: @HOST\r\n Transfer-Encoding: chunked\r\n", chunks)
	all.add(refused, "space before the first name", "PUT @PATH HTTP/1.1\r\n Host: @HOST\r\nHost: @HOST\r\n", "")
	all.add(refused, "folded", "Transfer-Encoding:\r\n chunked\r\n", chunks)
	all.add(refused, "folded length", "Content-Length: 5\r\n\t5\r\n", "hello")
	all.add(refused, "folded harmlessly", "X-A: b\r\n c\r\n", "")
	all.add(refused, "empty name", ": chunked\r\n", "")
	all.add(refused, "no colon", "Transfer-Encoding\r\n", chunks)
	all.add(refused, "NUL in a name", "Transfer-Encoding\x00: chunked\r\n", chunks)
	all.add(refused, "vertical tab in a name", "\vTransfer-Encoding: chunked\r\n", chunks)
	all.add(refused, "NUL in a value", "X-A: b\x00c\r\n", "")
	all.add(refused, "a long name", strings.Repeat("x", 600)+": chunked\r\n", "")
	all.add(refused, "LF in the header", "X-A: b\nTransfer-Encoding: chunked\r\n", chunks)
	all.add(refused, "LF after the request line", "PUT @PATH HTTP/1.1\nHost: @HOST\r\n", "")
	all.add(refused, "LF before the header's end", "X-A: b\n", "")
	*all = append(*all,
		Case{"LF ends the header", "PUT @PATH HTTP/1.1\r\nHost: @HOST\r\nContent-Length: 0\r\n\n" + secondRequest, refused, false},
		Case{"LF everywhere", strings.ReplaceAll("PUT @PATH HTTP/1.1\r\nHost: @HOST\r\nContent-Length: 0\r\n\r\n"+secondRequest, "\r", ""), refused, false},
		Case{"CR ends lines", "PUT @PATH HTTP/1.1\rHost: @HOST\rContent-Length: 0\r\r" + secondRequest, refused, false})
	all.add(refused, "CR in a value", "X-A: b\rTransfer-Encoding: chunked\r\n", chunks)
	all.add(refused, "CR at a line's end", "Transfer-Encoding: chunked\r\r\n", chunks)
	all.add(refused, "CR before a name", "\rTransfer-Encoding: chunked\r\n", chunks)
	all.add(refused, "CR in the request line", "PUT @PATH\rx HTTP/1.1\r\nHost: @HOST\r\n", "")
	all.add(refused, "tabs in the request line", "PUT\t@PATH\tHTTP/1.1\r\nHost: @HOST\r\n", "")
	all.add(refused, "HTTP/0.9", "GET @PATH\r\n", "")
	all.add(refused, "two hosts", "Host: @HOST\r\n", "")
	all.add(tooMany, "many fields", strings.Repeat("a:\r\n", 1000), "")
}

// bodies are requests whose chunks or trailers are wrong (RFC 9112, section 7.1).
func (all *cases) bodies() {
	for name, size := range map[string]string{
		"plus": "+5", "minus": "-5", "prefix": "0x5", "space before": " 5", "space after": "5 ", "space before an extension": "5 ;a", "tab after": "5\t", "overflow": "10000000000000005", "63 bits": "8000000000000005",
		"many zeros": strings.Repeat("0", 20) + "5", "empty": "", "no hexadecimal": "g", "extension only": ";a", "underscore": "0_5", "NUL": "5\x00", "CR": "5\r", "CR in an extension": "5;\ra",
		"LF in an extension": "5;\na", "long extension": "5;" + strings.Repeat("a", 600), "endless extension": "5;" + strings.Repeat("a", 20_000), "a list": "5,5",
	} {
		all.chunked(BodyRefused, "chunk size: "+name, size+"\r\nhello\r\n0\r\n\r\n")
	}
	all.chunked(BodyRefused, "LF after a chunk size", "5\nhello\r\n0\r\n\r\n")
	all.chunked(BodyRefused, "LF after an extension", "5;a\nhello\r\n0\r\n\r\n")
	all.chunked(BodyRefused, "LF after data", "5\r\nhello\n0\r\n\r\n")
	all.chunked(BodyRefused, "nothing after data", "5\r\nhello0\r\n\r\n")
	all.chunked(BodyRefused, "more data", "5\r\nhello!!\r\n0\r\n\r\n")
	all.chunked(BodyRefused, "CR after data", "5\r\nhello\r0\r\n\r\n")
	all.chunked(BodyRefused, "two bytes after data", "5\r\nhelloXX0\r\n\r\n")
	all.chunked(BodyRefused, "LF after the last chunk", "5\r\nhello\r\n0\n\r\n")
	all.chunked(BodyRefused, "LF ends the body", "5\r\nhello\r\n0\r\n\n")
	for _, name := range []string{"Content-Length", "transfer-encoding", "Host", "Authorization", "Trailer", "Cookie"} {
		all.chunked(BodyRefused, "trailer: "+name, "5\r\nhello\r\n0\r\n"+name+": 5\r\n\r\n")
	}
	all.chunked(BodyRefused, "trailer: LF", "5\r\nhello\r\n0\r\nX-A: b\n\r\n")
	all.chunked(BodyRefused, "trailer: folded", "5\r\nhello\r\n0\r\nX-A: b\r\n c\r\n\r\n")
	all.chunked(BodyRefused, "trailer: no name", "5\r\nhello\r\n0\r\nGET / HTTP/1.1\r\n\r\n")
	all.chunked(BodyRefused, "trailer: long", "5\r\nhello\r\n0\r\nX-A: "+strings.Repeat("a", 8<<10)+"\r\n\r\n")
	all.chunked(BodyRefused, "trailer: many", "5\r\nhello\r\n0\r\n"+strings.Repeat("a:\r\n", 5000)+"\r\n")
	all.add(refused, "trailer: announced framing", "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n", chunks)
}

// right are requests without ambiguity.
func (all *cases) right() {
	all.add(served, "a length", "Content-Length: 5\r\n", "hello")
	all.add(served, "a length with zeros", "Content-Length: 005\r\n", "hello")
	all.add(served, "a length without space", "Content-Length:5\r\n", "hello")
	all.chunked(served, "chunks", chunks)
	all.add(served, "chunks, in other case", "transfer-encoding:CHUNKED\r\n", chunks)
	all.chunked(served, "chunks with extensions", "5;a=b;c=\"d\"\r\nhello\r\n0;e\r\n\r\n")
	all.chunked(served, "chunks in upper case", "00A\r\nhellohello\r\n0\r\n\r\n")
	all.chunked(served, "chunks of a zero with zeros", "5\r\nhello\r\n000\r\n\r\n")
	all.chunked(served, "chunks like a request", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(inner), inner))
	all.chunked(served, "trailers", "5\r\nhello\r\n0\r\nX-A: b\r\nX-C:\r\n\r\n")
	all.add(served, "announced trailers", "Transfer-Encoding: chunked\r\nTrailer: X-A\r\n", "5\r\nhello\r\n0\r\nX-A: b\r\n\r\n")
	all.add(served, "GET with a body", "GET @PATH HTTP/1.1\r\nHost: @HOST\r\nContent-Length: 5\r\n", "hello")
	all.add(served, "GET with chunks", "GET @PATH HTTP/1.1\r\nHost: @HOST\r\nTransfer-Encoding: chunked\r\n", chunks)
	all.add(served, "a body like a request", fmt.Sprintf("Content-Length: %d\r\n", len(inner)), inner)
}

const inner = "GET /never HTTP/1.1\r\nHost: a\r\n\r\n"
