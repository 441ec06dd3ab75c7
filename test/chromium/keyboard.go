package chromium

import (
	_ "embed"
	"strings"
	"testing"
)

//go:embed keyboard.js
var keyboardScript string

const maxTabs = 1000

// TabThrough uses a newly opened page with only the keyboard, and returns the problems it finds. Tab must visit all
// interactive elements in document order and then leave the page. Each element must be visible and show the focus.
// Enter and space must open and close each <details> that does not match closed; its contents are visited, too. No
// element may require a mouse.
func (p *Page) TabThrough(t *testing.T, closed string) (problems []string) {
	t.Helper()
	p.conn.must(t, p.session, "Runtime.evaluate", map[string]any{"expression": keyboardScript}, nil)
	problems = p.mouseOnly(t)
	visited := Run[int](t, p, `return keyboard.start()`)
	for range maxTabs {
		p.press(t, "Tab")
		s := Run[struct {
			Problems     []string
			Opens, Ended bool
		}](t, p, `return keyboard.step(arguments[0])`, closed)
		problems = append(problems, s.Problems...)
		if s.Ended {
			if visited == 0 {
				problems = append(problems, "the Tab key visits no element")
			}
			return problems
		}
		visited++
		if !s.Opens {
			continue
		}
		for i, key := range []string{"Enter", " ", "Enter"} {
			p.press(t, key)
			problems = append(problems, Run[[]string](t, p, `return keyboard.toggled(...arguments)`, i != 1, key)...)
		}
	}
	return append(problems, "the Tab key does not leave the page")
}

func (p *Page) mouseOnly(t *testing.T) []string {
	t.Helper()
	type object struct{ Result struct{ ObjectID string } }
	var root object
	p.conn.must(t, p.session, "Runtime.evaluate", map[string]any{"expression": "document.documentElement"}, &root)
	var found struct {
		Listeners []struct {
			Type          string
			BackendNodeID int
		}
	}
	p.conn.must(t, p.session, "DOMDebugger.getEventListeners", map[string]any{"objectId": root.Result.ObjectID, "depth": -1}, &found)
	elements := []any{}
	for _, l := range found.Listeners {
		if l.BackendNodeID == 0 || !strings.HasSuffix(l.Type, "click") && !strings.HasPrefix(l.Type, "mouse") && !strings.HasPrefix(l.Type, "pointer") {
			continue
		}
		var node struct{ Object struct{ ObjectID string } }
		p.conn.must(t, p.session, "DOM.resolveNode", map[string]any{"backendNodeId": l.BackendNodeID}, &node)
		elements = append(elements, map[string]any{"objectId": node.Object.ObjectID})
	}
	var answer struct{ Result struct{ Value []string } }
	p.conn.must(t, p.session, "Runtime.callFunctionOn", map[string]any{
		"objectId": root.Result.ObjectID, "functionDeclaration": "function (...clicked) { return keyboard.mouse(...clicked) }", "arguments": elements, "returnByValue": true,
	}, &answer)
	return answer.Result.Value
}
