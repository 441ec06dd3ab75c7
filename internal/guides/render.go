package guides

import (
	"html"
	"path"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// markdown renders CommonMark with tables, and leaves out HTML. Cells are aligned by an attribute, because the policy
// allows no inline style.
var markdown = goldmark.New(goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))))

// render returns a guide's title and HTML. name is its file.
func (h *Handler) render(name, guide string) (title, body string, err error) {
	source := []byte(guide)
	doc := markdown.Parser().Parse(text.NewReader(source))
	var links []*ast.Link
	err = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			words := plain(n, source)
			n.SetAttributeString("id", []byte(anchor(words)))
			if title == "" {
				title = words
			}
		case *ast.Link:
			links = append(links, n)
		case *ast.Image:
			n.Destination = []byte(Prefix + path.Join(path.Dir(name), string(n.Destination)))
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return "", "", err
	}
	if title == "" {
		return "", "", errNoTitle
	}
	for _, l := range links {
		h.resolve(name, l)
	}
	var b strings.Builder
	err = markdown.Renderer().Render(&b, source, doc)
	return title, b.String(), err
}

// resolve makes a link lead to the page of its file. A link to a file that is not embedded becomes its text, with the
// file's name in the title.
func (h *Handler) resolve(name string, l *ast.Link) {
	to, fragment, hasFragment := strings.Cut(string(l.Destination), "#")
	if to == "" || strings.Contains(to, ":") {
		return
	}
	to = path.Join(path.Dir(name), to)
	if h.files[pathOf(to)].name != to {
		unlink(l, path.Join("docs", to))
		return
	}
	if to = Prefix + pathOf(to); hasFragment {
		to += "#" + fragment
	}
	l.Destination = []byte(to)
}

// unlink replaces a link by its text.
func unlink(l *ast.Link, file string) {
	parent := l.Parent()
	raw := func(markup string) ast.Node {
		s := ast.NewString([]byte(markup))
		s.SetCode(true) // written as it is
		return s
	}
	parent.InsertBefore(parent, l, raw(`<span title="`+html.EscapeString("the file "+file+" in the source")+`">`))
	for l.FirstChild() != nil {
		parent.InsertBefore(parent, l, l.FirstChild())
	}
	parent.ReplaceChild(parent, l, raw("</span>"))
}

// plain returns a node's text without markup.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			b.Write(c.Segment.Value(source))
			if c.SoftLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(c.Value)
		default:
			b.WriteString(plain(c, source))
		}
	}
	return b.String()
}

// anchor returns the ID that web sites with repositories generate for a heading, because the guides link to it.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '-':
			return '-'
		case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}
