package chromium

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

const patience = 5 * time.Minute

// conn is a connection to a browser. It is safe for concurrent use.
type conn struct {
	ended chan struct{} // closed when the browser closes its pipe

	mu        sync.Mutex
	out       io.Writer
	last      int
	answers   map[int]chan *message
	frames    map[string]string   // main frame by session
	documents map[string]document // newest document by session
	changed   chan struct{}       // closed and replaced when a document changes
	wrong     map[string][]string
}

// document is a navigation's result, identified by its loader.
type document struct {
	loader string
	loaded bool
}

type message struct {
	ID        int
	SessionID string
	Method    string
	Params    json.RawMessage
	Result    json.RawMessage
	Error     *struct {
		Message string
		Data    string
	}
}

func newConn(out io.Writer, in io.Reader) *conn {
	c := &conn{
		ended: make(chan struct{}), out: out, answers: map[int]chan *message{},
		frames: map[string]string{}, documents: map[string]document{}, changed: make(chan struct{}), wrong: map[string][]string{},
	}
	go c.read(in)
	return c
}

func (c *conn) read(in io.Reader) {
	defer close(c.ended)
	for r := bufio.NewReaderSize(in, 1<<16); ; {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) == nil {
			c.receive(&m)
		}
	}
}

func (c *conn) receive(m *message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.ID != 0 {
		if answer := c.answers[m.ID]; answer != nil {
			delete(c.answers, m.ID)
			answer <- m
		}
		return
	}
	if m.Method == "Page.lifecycleEvent" {
		c.follow(m)
	}
	if problem := problemOf(m); problem != "" {
		c.wrong[m.SessionID] = append(c.wrong[m.SessionID], problem)
	}
}

func problemOf(m *message) string {
	var p struct {
		ExceptionDetails exception
		Type             string
		Args             []struct{ Value, Description any }
		Entry            struct{ Source, Level, Text, URL string }
	}
	switch m.Method {
	case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded":
		if err := json.Unmarshal(m.Params, &p); err != nil {
			return err.Error()
		}
	}
	switch {
	case m.Method == "Runtime.exceptionThrown":
		return p.ExceptionDetails.Error()
	case p.Type == "error" || p.Type == "assert":
		return fmt.Sprint("console.", p.Type, " ", p.Args)
	case p.Entry.Level == "error" && p.Entry.Source != "network":
		return strings.TrimSpace(p.Entry.Source + ": " + p.Entry.Text + " " + p.Entry.URL)
	}
	return ""
}

func (c *conn) problems(session string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.wrong[session]...)
}

func (c *conn) watch(session, frame string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.documents[session] = document{}
	c.frames[session] = frame
}

// follow ignores load events of replaced documents and inner frames. c.mu must be held.
func (c *conn) follow(m *message) {
	var event struct{ FrameID, LoaderID, Name string }
	if err := json.Unmarshal(m.Params, &event); err != nil || event.FrameID != c.frames[m.SessionID] {
		return
	}
	d := c.documents[m.SessionID]
	switch {
	case event.Name == "init" || event.Name == "commit":
		if d.loader == event.LoaderID {
			return
		}
		d = document{loader: event.LoaderID}
	case event.Name == "load" && d.loader == event.LoaderID:
		d.loaded = true
	default:
		return
	}
	c.documents[m.SessionID] = d
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *conn) document(session string) (document, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.documents[session], c.changed
}

var errGone = errors.New("the browser has ended")

func (c *conn) await(session string, has func(document) bool) error {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		d, changed := c.document(session)
		if d.loaded && has(d) {
			return nil
		}
		select {
		case <-changed:
		case <-c.ended:
			return errGone
		case <-timeout.C:
			return fmt.Errorf("not done in %s", patience)
		}
	}
}

func (c *conn) must(t *testing.T, session, method string, params map[string]any, result any) {
	t.Helper()
	if err := c.call(session, method, params, result); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
}

func (c *conn) call(session, method string, params map[string]any, result any) error {
	answer, err := c.send(session, method, params)
	if err != nil {
		return err
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	var m *message
	select {
	case m = <-answer:
	case <-c.ended:
		return errGone
	case <-timeout.C:
		return fmt.Errorf("not answered in %s", patience)
	}
	if m.Error != nil {
		return errors.New(strings.TrimSpace(m.Error.Message + " " + m.Error.Data))
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(m.Result, result)
}

func (c *conn) send(session, method string, params map[string]any) (<-chan *message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	command := map[string]any{"id": c.last, "method": method}
	if params != nil {
		command["params"] = params
	}
	if session != "" {
		command["sessionId"] = session
	}
	text, err := json.Marshal(command)
	if err != nil {
		return nil, err
	}
	answer := make(chan *message, 1)
	c.answers[c.last] = answer
	_, err = c.out.Write(append(text, 0))
	return answer, err
}
